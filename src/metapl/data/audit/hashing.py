"""Fingerprints of pictures: a digest for equal pixels, and a perceptual hash for pictures that look the same.

The perceptual one (a "pHash"): the brightness of the picture, averaged down to 32×32, its 8×8 lowest cosine
frequencies, and for each of them one bit: above the median or not. Compression, scaling and small changes of colour
change a few of the 64 bits; different pictures differ in about 32.
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
    """Hash [H, W, C] to 64 bits; the top of the file says how."""
    # Pillow averages in one thread and releases Python's lock. The linear algebra library would spread so small a
    # matrix product over all cores, from several threads at once: that takes ten times as long.
    small = np.asarray(_grey(picture).resize((GRID, GRID), Image.Resampling.BOX))
    waves = (COSINES @ small @ COSINES.T).ravel()
    waves[np.abs(waves) < 1e-3] = 0  # the rounding noise of a blank picture carries no information
    waves[0] = 0  # the mean brightness: a brighter copy is still a copy
    return np.uint64(int.from_bytes(np.packbits(waves > np.median(waves)).tobytes(), "big"))


def distances(left: Hashes, right: Hashes) -> NDArray[np.uint8]:
    """Bits in which two hashes differ, elementwise."""
    return np.bitwise_count(left ^ right)


def _grey(picture: NDArray[np.uint8]) -> Image.Image:
    """The brightness as floats, so that averages are not rounded."""
    if picture.shape[-1] == 3:
        return Image.fromarray(picture).convert("L").convert("F")
    return Image.fromarray(picture.mean(axis=-1, dtype=np.float32))
