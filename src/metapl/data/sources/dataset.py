"""What a source gives: arrays, or pictures yet to be read, of who is labelled, who is not, and who is asked last."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.data.sources.on_disk import Examples, OnDisk


class Dataset(NamedTuple):
    """Examples as they are stored; labels count from 0."""

    labeled: Examples  # [L, ...]
    labels: NDArray[np.int32]  # [L]
    unlabeled: Examples  # [N, ...]
    test: Examples  # [M, ...]
    test_labels: NDArray[np.int32]  # [M]
    class_names: tuple[str, ...]
    manifest: Mapping[str, Any] | None = None  # what the split holds, with checksums; None where a seed says it all
    val: Examples | None = None  # [V, ...] held out to choose between networks; None where nothing is
    val_labels: NDArray[np.int32] | None = None  # [V]
    test_real: NDArray[np.bool_] | None = None  # [M, classes] which labels are right (ImageNet-ReaL), if asked for
    truth: NDArray[np.int32] | None = None  # [N] labels of the unlabelled, −1: unknown; to score, not to train on

    @property
    def from_files(self) -> bool:
        """Are the pictures read when their turn comes?"""
        return isinstance(self.labeled, OnDisk)


@dataclass(frozen=True)
class SourceConfig:
    """Base of every data source's settings; `name` is how files and flags call it."""

    name: ClassVar[str]
