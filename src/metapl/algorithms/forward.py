"""One forward pass over all views, so that batch statistics are those of the whole batch."""

from typing import NamedTuple

import jax.numpy as jnp

from metapl.types import Array, Network, PyTree, Views


class Logits(NamedTuple):
    """A network's answers to the views."""

    labeled: Array  # [B, C]
    weak: Array  # [U, C]
    strong: Array  # [U, C]; [0, C] where the strong views were not asked for


def forward_views(
    network: Network, params: PyTree, stats: PyTree, views: Views, key: Array, *, strong: bool = True
) -> tuple[Logits, PyTree]:
    """Answer [labeled, weak, strong] in training mode, with one pass and one set of statistics."""
    inputs = [views.labeled, views.weak] + ([views.strong] if strong else [])
    logits, stats = network.apply(params, stats, jnp.concatenate(inputs), train=True, key=key)
    labeled, unlabeled = len(views.labeled), len(views.weak)
    return Logits(*jnp.split(logits, [labeled, labeled + unlabeled])), stats
