"""Batches from data that lives on the device: a batch is a pure function of (key, step).

Each stream goes through its data in epochs without replacement, in an order that is a function of (key, epoch). So
nothing has to be stored or restored, and any step's batch can be made without those before it.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from metapl.data.loading import order, shuffle
from metapl.data.sources.dataset import Dataset
from metapl.types import Array, Batch, Indices, Totals

ON_DEVICE = shuffle.Backend(jnp, jax.lax.while_loop)


class Resident(NamedTuple):
    """A training set on the device."""

    labeled: Array
    labels: Array
    unlabeled: Array
    truth: Array | None = None
    balanced: Array | None = None  # [K] int32: labelled rows, as many of each class; None if no stage uses it


class StepBatches(NamedTuple):
    """The batches of some steps, read from files."""

    batches: Batch  # [K, ...] each; predictions as stored
    first: Array | int  # the first batch's step


class PredictionsOnDevice(NamedTuple):
    """A fixed network's predictions for a training set, on the device."""

    labeled: Array  # [L, C] float16
    unlabeled: Array  # [N, C] float16
    rows: Array | None = None  # [K] int32: the unlabelled examples to learn from; None: all


def resident(dataset: Dataset, balanced: bool = False) -> Resident:
    """Put the training examples on the device; `balanced` adds the rows that balance the classes."""
    truth = None if dataset.truth is None else jnp.asarray(dataset.truth)
    labeled, labels, unlabeled = map(jnp.asarray, (dataset.labeled, dataset.labels, dataset.unlabeled))
    rows = jnp.asarray(order.balanced(dataset.labels)) if balanced else None
    return Resident(labeled, labels, unlabeled, truth, rows)


def labeled_only(data: Resident) -> Resident:
    """Use the labelled examples as the unlabelled ones, too: a method as a regulariser (Appendix D.2)."""
    return data._replace(unlabeled=data.labeled, truth=data.labels)


def batch(
    data: Resident,
    key: Array,
    step: Array,
    labeled_size: int,
    unlabeled_size: int,
    predictions: PredictionsOnDevice | None = None,
    balanced: bool = False,
    indices: bool = False,
) -> Batch:
    """Gather the batch of one step; the labelled and the unlabelled stream each have an order of their own."""
    labeled_key, unlabeled_key = jax.random.split(key)
    balanced_rows = data.balanced if balanced else None
    labeled = epoch_indices(
        labeled_key, step, labeled_size, len(data.labels if balanced_rows is None else balanced_rows)
    )
    labeled = labeled if balanced_rows is None else balanced_rows[labeled]
    rows = predictions.rows if predictions is not None else None
    unlabeled = epoch_indices(unlabeled_key, step, unlabeled_size, len(data.unlabeled if rows is None else rows))
    unlabeled = unlabeled if rows is None else rows[unlabeled]
    batch = Batch(data.labeled[labeled], data.labels[labeled], data.unlabeled[unlabeled])
    if indices:
        totals = Totals(len(data.labels), len(data.unlabeled))
        batch = batch._replace(indices=Indices(labeled.astype(jnp.int32), unlabeled.astype(jnp.int32), totals))
    if data.truth is not None:
        batch = batch._replace(truth=data.truth[unlabeled])
    if predictions is not None:
        batch = batch._replace(
            labeled_predictions=predictions.labeled[labeled], predictions=predictions.unlabeled[unlabeled]
        )
    return _with_exact_predictions(batch)


def batch_of(read: StepBatches, step: Array) -> Batch:
    """Take the batch of one step, as `batch` gathers it.

    It is indexed by the step even if there is only one batch. The compiler then makes nearly the same program of the
    rest of the step as for data on the device. Otherwise it would move computations out of the loop, with other
    rounding.
    """
    return _with_exact_predictions(jax.tree.map(lambda leaf: leaf[step - read.first], read.batches))


def _with_exact_predictions(batch: Batch) -> Batch:
    if batch.labeled_predictions is None or batch.predictions is None:
        return batch
    labeled, unlabeled = _exact(batch.labeled_predictions), _exact(batch.predictions)
    return batch._replace(labeled_predictions=labeled, predictions=unlabeled)


def _exact(stored: Array) -> Array:
    """Scale distributions to sum to 1: in float16, those over many classes are some thousandths off."""
    values = stored.astype(jnp.float32)
    return values / jnp.sum(values, axis=-1, keepdims=True)


def epoch_indices(key: Array, step: Array, batch_size: int, total: int) -> Array:
    """Indices [batch_size] of one step's examples, as `shuffle.epoch_indices` has them."""
    if batch_size == total:
        return jnp.arange(total)
    words = jax.random.bits(key, (shuffle.ROUNDS,))
    indices: Array = shuffle.epoch_indices(ON_DEVICE, words, jnp.asarray(step, jnp.uint32), batch_size, total)
    return indices.astype(jnp.int32)
