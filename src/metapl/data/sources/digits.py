"""scikit-learn's digits: 1,797 grey pictures of 8×8, which need no file.

They have no official test set: here the last 360 pictures (20 %) are the test part.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from metapl.data.reading.files import Folders
from metapl.data.sources.source import InMemory, Part, PictureConfig, Source

_TRAIN = 1437


@dataclass(frozen=True)
class Digits(PictureConfig):
    """Handwritten digits of 8×8, which come with scikit-learn."""

    name: ClassVar[str] = "digits"
    mirrored: ClassVar[bool] = False
    shift_pixels: ClassVar[int] = 1


def read(config: Digits, folders: Folders) -> Source:
    """Read the digits; their 17 grey levels are stretched to 0 … 255."""
    from sklearn.datasets import load_digits  # takes a second of processor time, which other sources must not wait for

    digits = load_digits()
    images = np.rint(digits.images[..., None] * (255 / 16)).astype(np.uint8)
    labels = digits.target.astype(np.int32)
    return Source(
        {
            "train": Part(InMemory(images[:_TRAIN], "train"), labels[:_TRAIN]),
            "test": Part(InMemory(images[_TRAIN:], "test"), labels[_TRAIN:]),
        },
        tuple("0123456789"),
    )
