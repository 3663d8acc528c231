"""Pictures for the tests: photographs, and noise."""

import functools
from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image
from sklearn.datasets import load_sample_images

Pictures = NDArray[np.uint8]


@functools.cache
def photographs(side: int = 32) -> Pictures:
    """Tiles of scikit-learn's two photographs (a temple, a flower), shrunk: [B, side, side, 3]."""
    tiles = []
    for photograph in load_sample_images().images:
        small = np.asarray(Image.fromarray(photograph).resize((4 * side, 2 * side), Image.Resampling.BOX))
        tiles += [small[y : y + side, x : x + side] for y in (0, side) for x in range(0, 4 * side, side)]
    return np.stack(tiles)


def noise(seed: int, shape: tuple[int, int, int, int]) -> Pictures:
    """Noise whose range differs from image to image and channel to channel, single levels included."""
    key = np.random.default_rng(seed)
    low = key.integers(0, 256, (shape[0], 1, 1, shape[3]))
    high = key.integers(low, 256)
    return key.integers(low, high, shape, endpoint=True).astype(np.uint8)


def batches() -> st.SearchStrategy[Pictures]:
    """Photographs or noise, in colour or grey, of few shapes so that little has to be compiled."""
    noises = st.builds(
        noise, st.integers(0, 2**32 - 1), st.sampled_from([(4, 32, 32, 3), (4, 16, 24, 3), (4, 9, 7, 1)])
    )
    return st.one_of(noises, st.sampled_from([photographs()[:4], photographs()[8:12], photographs()[4:8, :, :, :1]]))


def with_pillow(pictures: Pictures, change: Callable[[Image.Image], Image.Image]) -> NDArray[np.int32]:
    """Let Pillow change each picture."""
    changed = [np.asarray(change(to_pillow(picture))).reshape(picture.shape) for picture in pictures]
    return np.stack(changed).astype(np.int32)


def to_pillow(picture: Pictures) -> Image.Image:
    return Image.fromarray(picture[..., 0] if picture.shape[-1] == 1 else picture)
