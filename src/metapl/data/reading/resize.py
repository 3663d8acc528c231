"""Cut and scale a picture of any size to a given size."""

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from metapl.schema import ConfigError

TO_SCALE = 2  # times the wanted side: a reduced picture of this side or more, scaled, is close to the whole one, scaled


def centre_square(picture: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """Cut the largest centred square out of [H, W, C] and scale it to [size, size, C]; if it has that size, keep it."""
    return centre_part(picture, size, size)


def centre_part(picture: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """Cut the largest centred part of these proportions and scale it to [height, width, C]."""
    own_height, own_width, channels = picture.shape
    if (own_height, own_width) == (height, width):
        return picture
    if channels not in (1, 3):
        raise ConfigError(f"pictures have 1 or 3 channels, got {channels}")
    rows = max(1, min(own_height, own_width * height // width))
    columns = max(1, min(own_width, own_height * width // height))
    top, left = (own_height - rows) // 2, (own_width - columns) // 2
    # Cut first: if a filter is given a box instead, it also reads pixels outside of it.
    part = np.ascontiguousarray(picture[top : top + rows, left : left + columns])
    image = Image.fromarray(part[..., 0] if channels == 1 else part)
    # reducing_gap averages large pictures down in a cheap first step; 2 keeps the result close to the exact one.
    scaled = image.resize((width, height), Image.Resampling.BILINEAR, reducing_gap=2.0)
    return np.asarray(scaled).reshape(height, width, channels)


def to_grey(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Turn [H, W, 3] into [H, W, 1] by the brightness that an eye sees; grey pixels keep their values."""
    return np.asarray(Image.fromarray(picture).convert("L"))[..., None]
