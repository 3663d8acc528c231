"""The loop's batches from files: those that `loader.batch` gathers on the device, in the same order, bit for bit.

A batch is read, decoded and put on the device while the device works on the one before it. It is a function of (key,
step): to go on from a checkpoint is to begin with its step.
"""

from collections.abc import Generator
from types import TracebackType
from typing import NamedTuple, Self

import jax
import numpy as np
from numpy.typing import NDArray

from metapl.data import files_loader, order, shuffle
from metapl.data.dataset import Dataset
from metapl.data.files_loader import Take
from metapl.data.on_disk import OnDisk
from metapl.types import Array, Batch


class StoredAnswers(NamedTuple):
    """What a fixed network says of a training set, on disk: only the rows of a batch are read."""

    labeled: NDArray[np.float16]  # [L, C]
    unlabeled: NDArray[np.float16]  # [N, C]
    rows: NDArray[np.int32] | None = None  # as in `loader.Answers`


class Feed:
    """The batches of one seed's stage, from one step on; each is asked for once or several times, then the next."""

    def __init__(self, batches: Generator[Batch], first: int) -> None:
        self._batches, self._step = batches, first - 1

    def at(self, step: int) -> Batch:
        """The batch of this step, the last one's or the one after it."""
        if step == self._step + 1:
            self._batch, self._step = next(self._batches), step
        if step != self._step:
            raise ValueError(f"step {self._step} or the next one can be had, not {step}")
        return self._batch

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._batches.close()


def open_feed(
    dataset: Dataset,
    key: Array,
    sizes: tuple[int, int],
    steps: int,
    first: int = 0,
    answers: StoredAnswers | None = None,
) -> Feed:
    """Begin to read the batches from step `first` on; `key` and `sizes` are what `loader.batch` would be given."""
    labeled, unlabeled = dataset.labeled, dataset.unlabeled
    assert isinstance(labeled, OnDisk)
    assert isinstance(unlabeled, OnDisk)
    rows = None if answers is None else answers.rows
    own_key, other_key = (np.asarray(jax.random.bits(part, (shuffle.ROUNDS,))) for part in jax.random.split(key))
    own = order.Shuffled(own_key, sizes[0], len(labeled))
    others = order.Shuffled(other_key, sizes[1], len(unlabeled if rows is None else rows), rows)

    put = jax.device_put

    def batch(step: int, pictures: NDArray[np.uint8]) -> Batch:
        chosen, other = own(step), others(step)
        found = Batch(put(pictures[: sizes[0]]), put(dataset.labels[chosen]), put(pictures[sizes[0] :]))
        if dataset.truth is not None:
            found = found._replace(truth=put(dataset.truth[other]))
        if answers is not None:
            told = put(answers.labeled[chosen]), put(answers.unlabeled[other])
            found = found._replace(labeled_distributions=told[0], distributions=told[1])
        return found

    takes = [Take(labeled.images, own), Take(unlabeled.images, others)]
    batches = files_loader.stream(takes, labeled.size, labeled.reading, batch, steps=steps, start_step=first)
    return Feed(batches, first)


def labeled_only(dataset: Dataset) -> Dataset:
    """As `loader.labeled_only`: the labelled examples in the place of the unlabelled ones, too."""
    return dataset._replace(unlabeled=dataset.labeled, truth=dataset.labels)
