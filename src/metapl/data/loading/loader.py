"""Batches from data that lives on the device: a batch is a pure function of (key, step).

Each stream goes through its data in epochs without replacement, in an order that is a function of (key, epoch): nothing
has to be kept, stored or restored, and any step's batch can be had without those before it.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from metapl.data.loading import order, shuffle
from metapl.data.sources.dataset import Dataset
from metapl.types import Array, Batch, Indices, Totals


class Resident(NamedTuple):
    """A training set on the device."""

    labeled: Array
    labels: Array
    unlabeled: Array
    truth: Array | None = None
    balanced: Array | None = None  # [K] int32: labelled rows, as many of each class; None where no stage asks for it


class Piece(NamedTuple):
    """The batches of some steps, read from files."""

    batches: Batch  # [K, ...] each; predictions are as they are stored
    first: Array | int  # the first batch's step


class PredictionsOnDevice(NamedTuple):
    """What a fixed network says of a training set, on the device."""

    labeled: Array  # [L, C] float16
    unlabeled: Array  # [N, C] float16
    rows: Array | None = None  # [K] int32: the unlabeled examples that are learnt from; None: all of them


def resident(dataset: Dataset, balanced: bool = False) -> Resident:
    """Put the training part of a data set where the steps run; `balanced` with an order of equal classes, too."""
    truth = None if dataset.truth is None else jnp.asarray(dataset.truth)
    labeled, labels, unlabeled = map(jnp.asarray, (dataset.labeled, dataset.labels, dataset.unlabeled))
    rows = jnp.asarray(order.balanced(dataset.labels)) if balanced else None
    return Resident(labeled, labels, unlabeled, truth, rows)


def labeled_only(data: Resident) -> Resident:
    """The labelled examples in the place of the unlabelled ones, too: a method as a regulariser (Appendix D.2)."""
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
    """Gather the batch of one step; the labelled and the unlabelled stream have orders of their own."""
    labeled_key, unlabeled_key = jax.random.split(key)
    own = data.balanced if balanced else None
    chosen = epoch_indices(labeled_key, step, labeled_size, len(data.labels if own is None else own))
    chosen = chosen if own is None else own[chosen]
    rows = predictions.rows if predictions is not None else None
    others = epoch_indices(unlabeled_key, step, unlabeled_size, len(data.unlabeled if rows is None else rows))
    others = others if rows is None else rows[others]
    found = Batch(data.labeled[chosen], data.labels[chosen], data.unlabeled[others])
    if indices:
        totals = Totals(len(data.labels), len(data.unlabeled))
        found = found._replace(indices=Indices(chosen.astype(jnp.int32), others.astype(jnp.int32), totals))
    if data.truth is not None:
        found = found._replace(truth=data.truth[others])
    if predictions is not None:
        told = _exact(predictions.labeled[chosen]), _exact(predictions.unlabeled[others])
        found = found._replace(labeled_predictions=told[0], predictions=told[1])
    return found


def batch_of(piece: Piece, step: Array) -> Batch:
    """Take the batch of one step, as `batch` gathers it.

    It is taken by the step even out of a piece of one: the compiler then makes of what follows much the same program as
    for data on the device, and none that computes what follows before the loop, rounding otherwise.
    """
    found: Batch = jax.tree.map(lambda leaf: leaf[step - piece.first], piece.batches)
    if found.labeled_predictions is None or found.predictions is None:
        return found
    told = _exact(found.labeled_predictions), _exact(found.predictions)
    return found._replace(labeled_predictions=told[0], predictions=told[1])


def _exact(stored: Array) -> Array:
    """Distributions that sum to 1 again: in float16, those over many classes are some thousandths off."""
    values = stored.astype(jnp.float32)
    return values / jnp.sum(values, axis=-1, keepdims=True)


def epoch_indices(key: Array, step: Array, batch_size: int, total: int) -> Array:
    """Indices [batch_size] of one step's examples.

    An epoch is as many whole batches as fit; what is left over changes from epoch to epoch. A batch larger than the
    data holds whole epochs and a part of one more; a batch that is all of the data needs no order.
    """
    if batch_size == total:
        return jnp.arange(total)
    step = jnp.asarray(step, jnp.uint32)
    slots = jnp.arange(batch_size, dtype=jnp.uint32)
    if batch_size <= total:
        batches = jnp.uint32(total // batch_size)
        epochs = jnp.broadcast_to(step // batches, slots.shape)
        positions = step % batches * jnp.uint32(batch_size) + slots
    else:
        epochs = step * jnp.uint32(-(-batch_size // total)) + slots // jnp.uint32(total)
        positions = slots % jnp.uint32(total)
    return shuffle.shuffled(jax.random.bits(key, (shuffle.ROUNDS,)), epochs, positions, total)
