"""How a network answers the views of a batch: which of them share a pass, and with it their batch statistics."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from metapl.algorithms.losses import Consistency
from metapl.types import Array, Network, PyTree, Views


class Logits(NamedTuple):
    """A network's answers to the views."""

    labeled: Array  # [B, C]
    weak: Array  # [U, C]
    strong: Array  # [U, C]; [0, C] where the strong views were not asked for

    def learning(self, config: Consistency) -> Array:
        """Answers to the view that the consistency term teaches."""
        return self.strong if config.view == "strong" else self.weak


def forward_views(
    config: Consistency, network: Network, params: PyTree, stats: PyTree, views: Views, key: Array
) -> tuple[Logits, PyTree]:
    """Answer [labeled, weak, strong], as far as the term needs them, in training mode.

    In one pass, statistics are those of all views together. Apart, each pass normalises with its own and moves the
    running ones in its turn.
    """
    strong = views.strong if config.view == "strong" else views.strong[:0]
    if config.passes == "one":
        inputs = jnp.concatenate([views.labeled, views.weak, strong])
        logits, stats = network.apply(params, stats, inputs, train=True, key=key)
        labeled, unlabeled = len(views.labeled), len(views.weak)
        return Logits(*jnp.split(logits, [labeled, labeled + unlabeled])), stats
    answers = []
    for inputs, pass_key in zip((views.labeled, views.weak, strong), jax.random.split(key, 3), strict=True):
        if len(inputs):
            logits, stats = network.apply(params, stats, inputs, train=True, key=pass_key)
        answers.append(logits[: len(inputs)])
    return Logits(*answers), stats


def forward_apart(
    network: Network, params: PyTree, stats: PyTree, views: Views, key: Array, weak_key: Array
) -> tuple[Logits, PyTree]:
    """Answer [labeled] as supervised learning does, which keeps these statistics, and [weak] in a pass of its own."""
    labeled, new_stats = network.apply(params, stats, views.labeled, train=True, key=key)
    weak, _ = network.apply(params, stats, views.weak, train=True, key=weak_key)
    return Logits(labeled, weak, weak[:0]), new_stats
