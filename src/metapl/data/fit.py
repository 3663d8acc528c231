"""Bring a picture of any size to a square of a fixed one."""

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from metapl.schema import ConfigError


def centre_square(picture: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """Cut the largest centred square out of [H, W, C] and scale it to [size, size, C]; a fitting one stays as it is."""
    height, width, channels = picture.shape
    if height == width == size:
        return picture
    if channels not in (1, 3):
        raise ConfigError(f"pictures have 1 or 3 channels, got {channels}")
    side = min(height, width)
    left, top = (width - side) // 2, (height - side) // 2
    image = Image.fromarray(picture[..., 0] if channels == 1 else picture)
    # One pass crops and scales; reducing_gap halves the cost of large pictures and cannot be seen.
    scaled = image.resize(
        (size, size), Image.Resampling.BILINEAR, box=(left, top, left + side, top + side), reducing_gap=2.0
    )
    return np.asarray(scaled).reshape(size, size, channels)
