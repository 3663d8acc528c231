"""Fingerprints of pictures: one for equal pixels, one for pictures that look the same, and a search for the latter.

The perceptual one (a "pHash"): the brightness of the picture, averaged down to 32×32, its 8×8 lowest cosine
frequencies, and for each of them one bit: above the median or not. Compression, scaling and small changes of colour
turn a few of the 64 bits; other pictures differ in about 32.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray
from PIL import Image

GRID, FREQUENCIES = 32, 8
ANGLES = np.pi * (np.arange(GRID) + 0.5) * np.arange(FREQUENCIES)[:, None] / GRID
COSINES = (np.cos(ANGLES) / GRID).astype(np.float32)  # [FREQUENCIES, GRID]: the lowest rows of a cosine transform

Hashes = NDArray[np.uint64]


def digest(picture: NDArray[np.uint8]) -> bytes:
    """16 bytes that are the same for the same pixels, however they were stored."""
    shape = repr(picture.shape).encode()
    return hashlib.blake2b(shape + np.ascontiguousarray(picture).data, digest_size=16).digest()


def perceptual(picture: NDArray[np.uint8]) -> np.uint64:
    """Hash [H, W, C] to 64 bits; see the head of the file."""
    # Pillow averages in one thread and lets go of Python's lock; a matrix product this small, spread over all cores by
    # the linear algebra library from several threads at once, takes ten times as long.
    small = np.asarray(_grey(picture).resize((GRID, GRID), Image.Resampling.BOX))
    waves = (COSINES @ small @ COSINES.T).ravel()
    waves[np.abs(waves) < 1e-3] = 0  # rounding noise of a blank picture is no detail
    waves[0] = 0  # the mean brightness: a brighter copy is still a copy
    return np.uint64(int.from_bytes(np.packbits(waves > np.median(waves)).tobytes(), "big"))


def distances(left: Hashes, right: Hashes) -> NDArray[np.uint8]:
    """Bits in which two hashes differ, elementwise."""
    return np.bitwise_count(left ^ right)


def _grey(picture: NDArray[np.uint8]) -> Image.Image:
    """Brightness, as floats, so that averages are not rounded."""
    if picture.shape[-1] == 3:
        return Image.fromarray(picture).convert("L").convert("F")
    return Image.fromarray(picture.mean(axis=-1, dtype=np.float32))
