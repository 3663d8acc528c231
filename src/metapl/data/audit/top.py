"""The K best rows of each class, from any number of rows, in memory for a few K of each class.

Equivalent to a heap for each class, but vectorised: rows that beat their class's K-th best so far wait in a buffer, and
a full buffer is merged into the best. Of equal probabilities the earlier row wins.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MIN_WAITING = 1 << 20

Rows = NDArray[np.int64]


class Entries(NamedTuple):
    """(class, probability, row) side by side."""

    classes: NDArray[np.int32]
    probabilities: NDArray[np.float32]
    rows: Rows


class Top:
    """Takes rows in their order and keeps the best. `admit` decides which rows may stay; only candidates are tested."""

    def __init__(self, classes: int, per_class: int, admit: Callable[[Rows], NDArray[np.bool_]]) -> None:
        self.floors = np.full(classes, -1, np.float32)  # the K-th best so far; only rows above it can still enter
        self._per_class, self._admit = per_class, admit
        self._best = Entries(np.empty(0, np.int32), np.empty(0, np.float32), np.empty(0, np.int64))
        self._waiting: list[Entries] = []
        self._limit = max(MIN_WAITING, classes * per_class)

    def offer(self, entries: Entries) -> None:
        """Take more entries, whose rows come after all earlier ones."""
        self._waiting.append(entries)
        if sum(len(waiting.rows) for waiting in self._waiting) >= self._limit:
            self._merge()

    def best(self) -> Entries:
        """The best entries, ordered by class, then by falling probability, then by row."""
        self._merge()
        return self._best

    def _merge(self) -> None:
        new = [self._admitted(_join(self._waiting))] if self._waiting else []
        self._waiting = []
        every = _join([self._best, *new])
        order = np.lexsort((every.rows, -every.probabilities, every.classes))
        classes = every.classes[order]
        starts = np.searchsorted(classes, np.arange(len(self.floors) + 1))
        rank = np.arange(len(classes)) - starts[classes]
        kept = order[rank < self._per_class]
        self._best = Entries(every.classes[kept], every.probabilities[kept], every.rows[kept])
        last = order[rank == self._per_class - 1]
        self.floors[every.classes[last]] = every.probabilities[last]

    def _admitted(self, entries: Entries) -> Entries:
        rows, places = np.unique(entries.rows, return_inverse=True)
        good = self._admit(rows)[places]
        return Entries(entries.classes[good], entries.probabilities[good], entries.rows[good])


def _join(entries: list[Entries]) -> Entries:
    return Entries(*(np.concatenate(columns) for columns in zip(*entries, strict=True)))
