"""A sample of the pictures that an encoder learns from, the same whenever it is asked for."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Pictures = NDArray[np.uint8]  # [N, H, W, C]


def sample(pictures: Sequence[Pictures], count: int) -> Pictures:
    """About so many pictures, of each array its share."""
    draw, total = np.random.RandomState(0), sum(map(len, pictures))
    rows = [np.sort(draw.permutation(len(array))[: -(-count * len(array) // total)]) for array in pictures]
    return np.concatenate([array[own] for array, own in zip(pictures, rows, strict=True)])
