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
    top, left = (height - side) // 2, (width - side) // 2
    # Cut first: a filter that is given a box to read looks over its edges.
    square = np.ascontiguousarray(picture[top : top + side, left : left + side])
    image = Image.fromarray(square[..., 0] if channels == 1 else square)
    # reducing_gap averages large pictures down in a cheap first step; 2 keeps the result close to the exact one.
    scaled = image.resize((size, size), Image.Resampling.BILINEAR, reducing_gap=2.0)
    return np.asarray(scaled).reshape(size, size, channels)
