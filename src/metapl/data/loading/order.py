"""The order of a stream on the host: which pictures each step takes.

`Shuffled` takes the same rows as the device's loader (`loader.epoch_indices`). Nothing is stored: a batch is a function
of (key, step), whatever the number of threads, workers and processes.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from metapl.data.loading import shuffle

Words = NDArray[np.uint32]  # [shuffle.ROUNDS] the key of one stream
Rows = NDArray[np.int64]


class Order(Protocol):
    """Which pictures each step takes."""

    @property
    def batch_size(self) -> int:
        """How many pictures a step takes; the last step of an order that ends may take fewer."""

    def __call__(self, step: int) -> Rows:
        """The rows of the step's pictures."""


@dataclass(frozen=True, eq=False)
class Shuffled:
    """Epoch after epoch, each in an order that the key draws."""

    key: Words
    batch_size: int
    total: int
    rows: NDArray[np.int32] | None = None
    """The rows to choose from, `total` of them; None: all."""

    def __call__(self, step: int) -> Rows:
        chosen = epoch_indices(self.key, step, self.batch_size, self.total)
        return chosen if self.rows is None else self.rows[chosen].astype(np.int64)


@dataclass(frozen=True)
class InTurn:
    """Each picture once, one after the other."""

    batch_size: int
    total: int

    def __call__(self, step: int) -> Rows:
        return np.arange(step * self.batch_size, min((step + 1) * self.batch_size, self.total))


def balanced(labels: NDArray[np.int32]) -> NDArray[np.int32]:
    """Rows in which every class stands as often as the largest: examples of smaller classes are repeated."""
    classes = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    most = max(map(len, classes))
    return np.concatenate([np.resize(rows, most) for rows in classes]).astype(np.int32)


def epoch_indices(key: Words, step: int, batch_size: int, total: int) -> Rows:
    """Indices [batch_size] of one step's pictures, as `shuffle.epoch_indices` has them."""
    step_word = np.asarray(step % 2**32, np.uint32)
    return np.asarray(shuffle.epoch_indices(shuffle.ON_HOST, key, step_word, batch_size, total), np.int64)
