"""Small sources for the tests of audits and selections."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from metapl.data.sources.source import Files, InMemory, Part, Source


def noise(seed: int, size: int = 16) -> NDArray[np.uint8]:
    """A picture unlike all others: 4×4 blocks of random colour."""
    blocks = np.random.default_rng(seed).integers(0, 256, (size // 4, size // 4, 3), np.uint8)
    return blocks.repeat(4, 0).repeat(4, 1)


def save(folder: Path, name: str, pixels: NDArray[np.uint8]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(folder / name)
    return folder / name


def files(*paths: Path, labels: list[int] | None = None) -> Part:
    return Part(Files(paths), np.array(labels or [-1] * len(paths), np.int32))


def in_memory(prefix: str, seeds: list[int], labels: list[int] | None = None) -> Part:
    array = np.stack([noise(seed) for seed in seeds])
    return Part(InMemory(array, prefix), np.array(labels or [-1] * len(seeds), np.int32))


def source(**parts: Part) -> Source:
    return Source(parts, ("cat", "dog", "eel"))
