"""Fingerprints of pictures: one for equal pixels, one for pictures that look the same, and a search for the latter.

The perceptual one (a "pHash"): the brightness of the picture, averaged down to 32×32, its 8×8 lowest cosine
frequencies, and for each of them one bit: above the median or not. Compression, scaling and small changes of colour
turn a few of the 64 bits; other pictures differ in about 32.
"""

import functools
import hashlib

import numpy as np
from numpy.typing import NDArray

GRID, FREQUENCIES = 32, 8
LUMA = np.array([0.299, 0.587, 0.114], np.float32)

Hashes = NDArray[np.uint64]


def digest(picture: NDArray[np.uint8]) -> bytes:
    """16 bytes that are the same for the same pixels, however they were stored."""
    shape = repr(picture.shape).encode()
    return hashlib.blake2b(shape + np.ascontiguousarray(picture).data, digest_size=16).digest()


def perceptual(pictures: NDArray[np.uint8]) -> Hashes:
    """Hash [N, H, W, C] to 64 bits each; see the head of the file."""
    grey = _grey(pictures)
    down, across = _low_frequencies(grey.shape[1]), _low_frequencies(grey.shape[2])
    waves = (down @ grey @ across.T).reshape(len(grey), -1)
    waves = np.where(np.abs(waves) < 1e-3, 0, waves)  # rounding noise of a blank picture is no detail
    waves[:, 0] = 0  # the mean brightness: a brighter copy is still a copy
    bits = waves > np.median(waves, axis=1, keepdims=True)
    return np.packbits(bits, axis=1).view(np.uint64)[:, 0]


def distances(left: Hashes, right: Hashes) -> NDArray[np.uint8]:
    """Bits in which two hashes differ, elementwise."""
    return np.bitwise_count(left ^ right)


def _grey(pictures: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Brightness [N, H, W]."""
    if pictures.shape[-1] == 3:
        return pictures.astype(np.float32) @ LUMA
    return pictures.astype(np.float32).mean(axis=-1)


@functools.lru_cache(maxsize=4096)
def _low_frequencies(size: int) -> NDArray[np.float32]:
    """[FREQUENCIES, size]: average `size` samples down to GRID cells, then take their lowest cosine waves."""
    edges = np.linspace(0, size, GRID + 1)
    cells = np.arange(size)
    overlap = np.minimum(edges[1:, None], cells + 1) - np.maximum(edges[:-1, None], cells)  # [GRID, size]
    average = np.clip(overlap, 0, None) * (GRID / size)
    angles = np.pi * (np.arange(GRID) + 0.5) * np.arange(FREQUENCIES)[:, None] / GRID
    return (np.cos(angles) @ average / GRID).astype(np.float32)
