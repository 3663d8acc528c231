"""The order of a stream on the host: which picture stands in which slot of which step.

The same epochs and the same keyed bijection as the device's loader (`loader.epoch_indices`, `shuffle.shuffled`),
in NumPy, so that processes that read files need none of jax; a test holds the two together. Nothing is stored: a batch
is a function of (key, step), whatever the number of threads, workers and processes.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]  # [shuffle.ROUNDS] the key of one stream
Rows = NDArray[np.int64]


class Order(Protocol):
    """Which pictures each step takes."""

    @property
    def batch_size(self) -> int:
        """How many a step takes; the last step of an order that ends may take fewer."""

    def __call__(self, step: int) -> Rows:
        """Their rows."""


@dataclass(frozen=True, eq=False)
class Shuffled:
    """Epoch after epoch, in orders that a key draws."""

    key: Words
    batch_size: int
    total: int
    rows: NDArray[np.int32] | None = None
    """Those that are gone through, `total` of them; None: all."""

    def __call__(self, step: int) -> Rows:
        chosen = epoch_indices(self.key, step, self.batch_size, self.total)
        return chosen if self.rows is None else self.rows[chosen].astype(np.int64)


@dataclass(frozen=True)
class InTurn:
    """Each once, one after the other."""

    batch_size: int
    total: int

    def __call__(self, step: int) -> Rows:
        return np.arange(step * self.batch_size, min((step + 1) * self.batch_size, self.total))


def balanced(labels: NDArray[np.int32]) -> NDArray[np.int32]:
    """Rows in which every class stands as often as the largest: smaller ones are gone through again and again."""
    classes = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    most = max(map(len, classes))
    return np.concatenate([np.resize(rows, most) for rows in classes]).astype(np.int32)


def epoch_indices(key: Words, step: int, batch_size: int, total: int) -> Rows:
    """Indices [batch_size] of one step's pictures.

    An epoch is as many whole batches as fit; what is left over changes from epoch to epoch. A batch larger than the
    data holds whole epochs and a part of one more; a batch that is all of the data needs no order.
    """
    if batch_size == total:
        return np.arange(total)
    slots = np.arange(batch_size, dtype=np.uint32)
    if batch_size <= total:
        epoch, batch = divmod(step, total // batch_size)
        epochs = np.full(batch_size, epoch % 2**32, np.uint32)
        positions = np.uint32(batch * batch_size) + slots
    else:
        first = step * -(-batch_size // total)
        epochs = np.uint32(first % 2**32) + slots // np.uint32(total)
        positions = slots % np.uint32(total)
    return shuffled(key, epochs, positions, total)


def shuffled(key: Words, epochs: NDArray[np.uint32], positions: NDArray[np.uint32], total: int) -> Rows:
    """Where the order of each epoch puts each position: a Feistel network over Z_rows × Z_columns, cycle-walked."""
    rows = np.uint32(math.isqrt(total - 1) + 1)
    columns = np.uint32(-(-total // int(rows)))
    round_keys = [_mix(word ^ _mix(epochs)) for word in key]
    index = _once(positions, round_keys, rows, columns)
    while np.any(outside := index >= total):
        index = np.where(outside, _once(index, round_keys, rows, columns), index)
    return index.astype(np.int64)


def _once(
    index: NDArray[np.uint32], round_keys: list[NDArray[np.uint32]], rows: np.uint32, columns: np.uint32
) -> NDArray[np.uint32]:
    row, column = index // columns, index % columns
    for i, round_key in enumerate(round_keys):
        if i % 2:
            column = (column + _mix(row ^ round_key) % columns) % columns
        else:
            row = (row + _mix(column ^ round_key) % rows) % rows
    return row * columns + column


def _mix(x: NDArray[np.uint32]) -> NDArray[np.uint32]:
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D)
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B)
    return x ^ (x >> np.uint32(16))
