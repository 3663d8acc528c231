"""How a network answers the views of a batch: which of them share a pass, and with it their batch statistics."""

from typing import NamedTuple

import jax.numpy as jnp

from metapl.types import Array, Network, PyTree, Views


class Logits(NamedTuple):
    """A network's answers to the views."""

    labeled: Array  # [B, C]
    weak: Array  # [U, C]
    strong: Array  # [U, C]; [0, C] where the strong views were not asked for


def forward_views(network: Network, params: PyTree, stats: PyTree, views: Views, key: Array) -> tuple[Logits, PyTree]:
    """Answer [labeled, weak, strong] in training mode, with one pass and one set of statistics."""
    inputs = jnp.concatenate([views.labeled, views.weak, views.strong])
    logits, stats = network.apply(params, stats, inputs, train=True, key=key)
    labeled, unlabeled = len(views.labeled), len(views.weak)
    return Logits(*jnp.split(logits, [labeled, labeled + unlabeled])), stats


def forward_apart(
    network: Network, params: PyTree, stats: PyTree, views: Views, key: Array, weak_key: Array
) -> tuple[Logits, PyTree]:
    """Answer [labeled] as supervised learning does, which keeps these statistics, and [weak] in a pass of its own."""
    labeled, new_stats = network.apply(params, stats, views.labeled, train=True, key=key)
    weak, _ = network.apply(params, stats, views.weak, train=True, key=weak_key)
    return Logits(labeled, weak, weak[:0]), new_stats
