"""Where the loop's batches come from: data that stay on the device, or files.

Either way a batch is the same function of (key, step), bit for bit: `from_files` reads, decodes and sends what
`loader.batch` gathers on the device, while the device works on the batch before. So a resumed run begins with its
checkpoint's step, and may switch from one way to the other.
"""

import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from metapl.data.loading import files_loader, loader, order, shuffle
from metapl.data.loading.files_loader import ProcessRows, Take
from metapl.data.sources.dataset import Dataset
from metapl.data.sources.on_disk import OnDisk
from metapl.system.sharding import SINGLE, Layout
from metapl.types import Array, Batch, Indices, Totals


class PredictionsOnDisk(NamedTuple):
    """A fixed network's predictions for a training set, on disk: only the rows of a batch are read."""

    labeled: NDArray[np.float16]  # [L, C]
    unlabeled: NDArray[np.float16]  # [N, C]
    rows: NDArray[np.int32] | None = None  # as in `loader.PredictionsOnDevice`


StoredPredictions = loader.PredictionsOnDevice | PredictionsOnDisk


class Feed(NamedTuple):
    """What the loop gives to the device for the next steps."""

    at: Callable[[int], loader.Resident | loader.StepBatches]  # (step) -> all the data, or that step's batch
    predictions: loader.PredictionsOnDevice | None  # those on the device; batches from files bring their own
    longest: int  # how many steps can be done with what `at` returns


class Sampling(NamedTuple):
    """What the batches of a stage hold."""

    labeled_size: int
    unlabeled_size: int
    steps: int
    uses_unlabeled: bool = True  # False: black pictures stand in for the unlabelled ones, which are not read
    balanced: bool = False  # labelled examples: as many of each class
    indices: bool = False  # whether batches say which examples they hold


def resident(data: loader.Resident, predictions: loader.PredictionsOnDevice | None) -> Feed:
    """Feed the loop from data on the device."""
    return Feed(lambda step: data, predictions, longest=sys.maxsize)


@contextmanager
def from_files(
    dataset: Dataset,
    key: Array,
    sampling: Sampling,
    first: int = 0,
    predictions: PredictionsOnDisk | None = None,
    layout: Layout = SINGLE,
) -> Iterator[Feed]:
    """Feed the loop from files, from step `first` on, with the batches that `loader.batch` makes with the same key.

    Of several processes, each reads the rows that its devices need.
    """
    with closing(batches(dataset, key, sampling, first, predictions, layout)) as read:
        yield Feed(_InTurn(read, first).at, None, longest=1)


def batches(
    dataset: Dataset,
    key: Array,
    sampling: Sampling,
    first: int,
    predictions: PredictionsOnDisk | None,
    layout: Layout,
) -> Generator[loader.StepBatches]:
    """Yield each step's batch, as `loader.batch` makes it."""
    labeled, unlabeled = dataset.labeled, dataset.unlabeled
    assert isinstance(labeled, OnDisk)
    assert isinstance(unlabeled, OnDisk)
    sizes, labeled_alone = (sampling.labeled_size, sampling.unlabeled_size), not sampling.uses_unlabeled
    rows = None if predictions is None else predictions.rows
    labeled_key, unlabeled_key = (
        np.asarray(jax.random.bits(half, (shuffle.ROUNDS,))) for half in jax.random.split(key)
    )
    equal = order.balanced(dataset.labels) if sampling.balanced else None
    labeled_order = order.Shuffled(labeled_key, sizes[0], len(labeled) if equal is None else len(equal), equal)
    unlabeled_order = order.Shuffled(unlabeled_key, sizes[1], len(unlabeled if rows is None else rows), rows)
    labeled_share, unlabeled_share = (ProcessRows(*layout.share(size)) for size in sizes)

    def batch(step: int, pictures: NDArray[np.uint8]) -> loader.StepBatches:
        chosen = labeled_share.of(labeled_order(step))
        chosen_unlabeled = unlabeled_share.of(unlabeled_order(step))
        labeled_pictures, unlabeled_pictures = pictures[: len(chosen)], pictures[len(chosen) :]
        if labeled_alone:
            unlabeled_pictures = np.zeros((len(chosen_unlabeled), *labeled_pictures.shape[1:]), np.uint8)
        batch = Batch(put(labeled_pictures, 0), put(dataset.labels[chosen], 0), put(unlabeled_pictures, 1))
        if sampling.indices:
            rows_of = put(chosen.astype(np.int32), 0), put(chosen_unlabeled.astype(np.int32), 1)
            batch = batch._replace(indices=Indices(*rows_of, Totals(len(labeled), len(unlabeled))))
        if labeled_alone:
            return loader.StepBatches(batch, step)
        if dataset.truth is not None:
            batch = batch._replace(truth=put(dataset.truth[chosen_unlabeled], 1))
        if predictions is not None:
            batch = batch._replace(
                labeled_predictions=put(predictions.labeled[chosen], 0),
                predictions=put(predictions.unlabeled[chosen_unlabeled], 1),
            )
        return loader.StepBatches(batch, step)

    def put(rows: NDArray[np.generic], stream: int) -> Array:
        return layout.put_rows(rows[None], sizes[stream], leading=1)

    takes = [Take(labeled.images, labeled_order, labeled_share)]
    if not labeled_alone:
        takes.append(Take(unlabeled.images, unlabeled_order, unlabeled_share))
    return files_loader.stream(takes, labeled.size, labeled.reading, batch, steps=sampling.steps, start_step=first)


def labeled_only(dataset: Dataset) -> Dataset:
    """Use the labelled examples as the unlabelled ones, too, as `loader.labeled_only`."""
    return dataset._replace(unlabeled=dataset.labeled, truth=dataset.labels)


class _InTurn:
    """Batches by their steps, which must be asked for one after another, each as often as needed."""

    def __init__(self, batches: Iterator[loader.StepBatches], first: int) -> None:
        self._batches, self._step = batches, first - 1

    def at(self, step: int) -> loader.StepBatches:
        if step == self._step + 1:
            self._batch, self._step = next(self._batches), step
        if step != self._step:
            raise ValueError(f"step {self._step} or the next one can be read, not {step}")
        return self._batch
