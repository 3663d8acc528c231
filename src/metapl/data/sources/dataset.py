"""Examples by role, ready for training: arrays, or pictures that are read from disk when they are needed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.data.sources.on_disk import Examples, OnDisk

Role = Literal["labeled", "unlabeled", "val", "test"]
ROLES: tuple[Role, ...] = ("labeled", "unlabeled", "val", "test")


class Dataset(NamedTuple):
    """Examples by role, as they are stored; labels count from 0."""

    labeled: Examples  # [L, ...]
    labels: NDArray[np.int32]  # [L]
    unlabeled: Examples  # [N, ...]
    test: Examples  # [M, ...]
    test_labels: NDArray[np.int32]  # [M]
    class_names: tuple[str, ...]
    manifest: Mapping[str, Any] | None = None  # the split with checksums; None if the seed determines the data
    val: Examples | None = None  # [V, ...] held out to choose between networks; None: there are none
    val_labels: NDArray[np.int32] | None = None  # [V]
    test_real: NDArray[np.bool_] | None = (
        None  # [M, classes] which labels are right, if the settings name ImageNet-ReaL
    )
    truth: NDArray[np.int32] | None = (
        None  # [N] true labels of `unlabeled`, −1: unknown; for scoring, never for training
    )

    @property
    def from_files(self) -> bool:
        """Whether pictures are read from disk when their turn comes."""
        return isinstance(self.labeled, OnDisk)


@dataclass(frozen=True)
class SourceConfig:
    """Base of every data source's settings; `name` is its name in files and flags."""

    name: ClassVar[str]
