"""Temporal Ensembling (Laine and Aila, 2017): the network agrees with the average of its earlier predictions.

    z    = f(x_u; θ)                                             probabilities
    z̃_n  = Z_n / (1 − α^(k_n))                                   k_n: how often example n has been seen before
    J    = mean_u [k_n > 0] ‖ z − z̃_n ‖²                         a mean over classes, too
    θ'   = θ − η ∇_θ [ CE(y_l, f(x_l; θ)) + λ_t J ],   λ_t = λ exp(−5 (1 − min(1, t / ramp_steps))²)
    Z_n  ← α Z_n + (1 − α) z,   k_n ← k_n + 1

Z starts at 0; the division corrects that. An example that has not been seen yet has no average, so it counts as 0.
Each example is seen once an epoch, so an update at once is the authors' update at the end of an epoch. The unlabelled
examples include the labelled ones in this project's splits, as in the paper's J.

| symbol      | name                                      |
|-------------|-------------------------------------------|
| Z, k        | Memory.sums [N, C], Memory.seen [N]       |
| α, λ        | config.momentum, config.weight            |
| t           | learner.updates                           |
| x_l, y_l    | views.labeled, views.labels               |
| x_u         | views.weak                                |
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt, Lt

from metapl import optim
from metapl.algorithms import learner as learners
from metapl.algorithms.losses import accuracy, cross_entropy, one_hot_best, risen
from metapl.algorithms.passes import together
from metapl.types import (
    PSEUDO_LABELS,
    Array,
    Learner,
    LossTerms,
    MethodConfig,
    Network,
    Objective,
    PyTree,
    Views,
)


@dataclass(frozen=True)
class TemporalEnsembling(MethodConfig):
    """Train on labels and on agreement with each example's average prediction."""

    name: ClassVar[str] = "temporal_ensembling"
    title: ClassVar[str] = "Temporal Ensembling"
    needs_indices: ClassVar[bool] = True

    weight: Annotated[float, Ge(0)] = 30.0
    """λ: factor of the agreement term after the rise. The authors multiply 30 by the share of labelled
    examples and divide the labelled loss by the whole batch, which equals 30 for means over each batch, as here."""
    momentum: Annotated[float, Gt(0), Lt(1)] = 0.6
    """α: share of an example's average that remains after its next prediction."""
    ramp_steps: Annotated[int, Ge(0)] = 0
    """Steps over which the factor rises like exp(−5 (1 − t)²); 0: no rise (the authors: 80 of 300 epochs)."""
    optimizer: optim.Optimizer = optim.Optimizer()
    label_smoothing: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Share of each true label that is spread evenly over all classes."""


class Memory(NamedTuple):
    """What is remembered of each unlabelled example."""

    sums: Array  # [N, C]
    seen: Array  # [N] int32


def objective(config: TemporalEnsembling, network: Network, steps: int) -> Objective:
    """CE(y_l, f(x_l; θ)) + λ_t J."""
    del steps

    def start(learner: Learner, views: Views, key: Array) -> Memory:
        del key
        assert views.indices is not None  # declared
        total, classes = views.indices.totals.unlabeled, learners.classes(network, learner, views.weak)
        return Memory(jnp.zeros((total, classes), views.weak.dtype), jnp.zeros((total,), jnp.int32))

    def terms(params: PyTree, learner: Learner, views: Views, key: Array) -> LossTerms:
        assert views.indices is not None  # declared
        rows, memory = views.indices.unlabeled, learner.memory
        (labeled, weak), stats = together(network, params, learner.stats, [views.labeled, views.weak], key)
        supervised = cross_entropy(views.labels, labeled, config.label_smoothing)

        # J
        z, sums, seen = jax.nn.softmax(weak), memory.sums[rows], memory.seen[rows]
        known = (seen > 0).astype(z.dtype)
        targets = sums / jnp.where(seen > 0, 1 - config.momentum ** seen.astype(z.dtype), 1)[:, None]
        disagreement = jnp.mean(known * jnp.mean((z - targets) ** 2, axis=-1))

        # Z_n ← α Z_n + (1 − α) z
        memory = Memory(
            memory.sums.at[rows].set(config.momentum * sums + (1 - config.momentum) * z),
            memory.seen.at[rows].set(seen + 1),
        )
        metrics = {
            "loss": supervised,
            "consistency_loss": disagreement,
            "labeled_accuracy": accuracy(views.labels, labeled),
            PSEUDO_LABELS: one_hot_best(weak),
        }
        factor = risen(config.weight, learner.updates, config.ramp_steps, z.dtype)
        return LossTerms(supervised, stats, metrics, factor * disagreement, weak, memory=memory)

    return Objective(terms, start)
