"""Batches from data that lives on the device: a batch is a pure function of (key, step).

Each stream goes through its data in epochs without replacement, in an order that is a function of (key, epoch): nothing
has to be kept, stored or restored, and any step's batch can be had without those before it.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from metapl.data import shuffle
from metapl.data.dataset import Dataset
from metapl.types import Array, Batch


class Resident(NamedTuple):
    """A training set on the device."""

    labeled: Array
    labels: Array
    unlabeled: Array
    truth: Array | None = None


def resident(dataset: Dataset) -> Resident:
    """Put the training part of a data set where the steps run."""
    truth = None if dataset.truth is None else jnp.asarray(dataset.truth)
    return Resident(*map(jnp.asarray, (dataset.labeled, dataset.labels, dataset.unlabeled)), truth)


def labeled_only(data: Resident) -> Resident:
    """The labelled examples in the place of the unlabelled ones, too: a method as a regulariser (Appendix D.2)."""
    return Resident(data.labeled, data.labels, data.labeled, data.labels)


def batch(data: Resident, key: Array, step: Array, labeled_size: int, unlabeled_size: int) -> Batch:
    """Gather the batch of one step; the labelled and the unlabelled stream have orders of their own."""
    labeled_key, unlabeled_key = jax.random.split(key)
    chosen = epoch_indices(labeled_key, step, labeled_size, len(data.labels))
    others = epoch_indices(unlabeled_key, step, unlabeled_size, len(data.unlabeled))
    truth = None if data.truth is None else data.truth[others]
    return Batch(data.labeled[chosen], data.labels[chosen], data.unlabeled[others], truth=truth)


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
