"""Where the loop's batches come from: data that stay on the device, or files.

Either way a batch is a function of (key, step), and the same one, bit for bit: what `loader.batch` gathers on the
device is what `from_files` reads, decodes and puts there while the device works on the batch before it. So to go on
from a checkpoint is to begin with its step, and it does not matter which way the run went until then.
"""

import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from metapl.data.loading import files_loader, loader, order, shuffle
from metapl.data.loading.files_loader import Share, Take
from metapl.data.sources.dataset import Dataset
from metapl.data.sources.on_disk import OnDisk
from metapl.system.sharding import SINGLE, Layout
from metapl.types import Array, Batch, Indices, Totals


class PredictionsOnDisk(NamedTuple):
    """What a fixed network says of a training set, on disk: only the rows of a batch are read."""

    labeled: NDArray[np.float16]  # [L, C]
    unlabeled: NDArray[np.float16]  # [N, C]
    rows: NDArray[np.int32] | None = None  # as in `loader.PredictionsOnDevice`


StoredPredictions = loader.PredictionsOnDevice | PredictionsOnDisk


class Feed(NamedTuple):
    """What the loop gives to the device for the next steps."""

    at: Callable[[int], loader.Resident | loader.Piece]  # (step) -> all the data, or that step's batch
    predictions: loader.PredictionsOnDevice | None  # those on the device; batches from files bring their own
    longest: int  # how many steps can be done with what `at` gives


def resident(data: loader.Resident, predictions: loader.PredictionsOnDevice | None) -> Feed:
    """Data on the device, from which every batch can be gathered."""
    return Feed(lambda step: data, predictions, longest=sys.maxsize)


@contextmanager
def from_files(
    dataset: Dataset,
    key: Array,
    sizes: tuple[int, int],
    steps: int,
    first: int = 0,
    predictions: PredictionsOnDisk | None = None,
    labeled_alone: bool = False,
    balanced: bool = False,
    layout: Layout = SINGLE,
    indices: bool = False,
) -> Iterator[Feed]:
    """Read the batches of the steps from `first` on; `key`, `sizes` and `balanced` are what `loader.batch` is given.

    For a method that does not look at unlabelled pictures, `labeled_alone` puts black ones in their place. For one that
    declares it, `indices` says which examples they are. Each of several processes reads the rows that its devices need.
    """
    read = batches(dataset, key, sizes, steps, first, predictions, labeled_alone, balanced, layout, indices)
    with closing(read):
        yield Feed(_InTurn(read, first).at, None, longest=1)


def batches(
    dataset: Dataset,
    key: Array,
    sizes: tuple[int, int],
    steps: int,
    first: int,
    predictions: PredictionsOnDisk | None,
    labeled_alone: bool,
    balanced: bool,
    layout: Layout,
    indices: bool = False,
) -> Generator[loader.Piece]:
    """Yield what `loader.batch` gives, each step's batch in a piece of its own."""
    labeled, unlabeled = dataset.labeled, dataset.unlabeled
    assert isinstance(labeled, OnDisk)
    assert isinstance(unlabeled, OnDisk)
    rows = None if predictions is None else predictions.rows
    own_key, other_key = (np.asarray(jax.random.bits(part, (shuffle.ROUNDS,))) for part in jax.random.split(key))
    equal = order.balanced(dataset.labels) if balanced else None
    own = order.Shuffled(own_key, sizes[0], len(labeled) if equal is None else len(equal), equal)
    others = order.Shuffled(other_key, sizes[1], len(unlabeled if rows is None else rows), rows)
    own_share, other_share = (Share(*layout.share(size)) for size in sizes)

    def batch(step: int, pictures: NDArray[np.uint8]) -> loader.Piece:
        chosen, other = own_share.of(own(step)), other_share.of(others(step))
        some, rest = pictures[: len(chosen)], pictures[len(chosen) :]
        if labeled_alone:
            rest = np.zeros((len(other), *some.shape[1:]), np.uint8)
        found = Batch(put(some, 0), put(dataset.labels[chosen], 0), put(rest, 1))
        if indices:
            totals = Totals(len(labeled), len(unlabeled))
            found = found._replace(
                indices=Indices(put(chosen.astype(np.int32), 0), put(other.astype(np.int32), 1), totals)
            )
        if labeled_alone:
            return loader.Piece(found, step)
        if dataset.truth is not None:
            found = found._replace(truth=put(dataset.truth[other], 1))
        if predictions is not None:
            told = put(predictions.labeled[chosen], 0), put(predictions.unlabeled[other], 1)
            found = found._replace(labeled_predictions=told[0], predictions=told[1])
        return loader.Piece(found, step)

    def put(rows: NDArray[np.generic], stream: int) -> Array:
        return layout.put_rows(rows[None], sizes[stream], leading=1)

    takes = [Take(labeled.images, own, own_share), Take(unlabeled.images, others, other_share)]
    takes = takes[:1] if labeled_alone else takes
    return files_loader.stream(takes, labeled.size, labeled.reading, batch, steps=steps, start_step=first)


def labeled_only(dataset: Dataset) -> Dataset:
    """As `loader.labeled_only`: the labelled examples in the place of the unlabelled ones, too."""
    return dataset._replace(unlabeled=dataset.labeled, truth=dataset.labels)


class _InTurn:
    """Pieces of one batch by their steps, which are asked for in turn, each as often as one likes."""

    def __init__(self, batches: Iterator[loader.Piece], first: int) -> None:
        self._batches, self._step = batches, first - 1

    def at(self, step: int) -> loader.Piece:
        if step == self._step + 1:
            self._batch, self._step = next(self._batches), step
        if step != self._step:
            raise ValueError(f"step {self._step} or the next one can be had, not {step}")
        return self._batch
