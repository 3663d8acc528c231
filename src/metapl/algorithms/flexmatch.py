"""FlexMatch (Zhang et al., 2021): FixMatch with a threshold for each class, by how much of it has been learnt.

    q      = f(x_u; θ),   ŷ_u = argmax q                                                   held fixed
    û_n    = the class that example n was last given with max q ≥ τ, or none               for all N unlabelled examples
    σ(c)   = #{n : û_n = c}
    β(c)   = σ(c) / max(max_c σ(c), #{n : û_n = none})
    kept   = [max q ≥ τ β(ŷ_u) / (2 − β(ŷ_u))]
    θ'     = θ − η ∇_θ [ CE(y_l, f(x_l; θ)) + λ mean_u kept CE(ŷ_u, f(RandAugment(x_u); θ)) ]

û is of the steps before; then it is brought up to date with this batch. The second number in the maximum is the
authors' warm-up: while most examples have no class yet, all thresholds are low.

| symbol   | name                        |
|----------|-----------------------------|
| û        | learner.memory [N], −1: none |
| τ, λ     | config.threshold, config.weight |
| x_l, y_l | views.labeled, views.labels |
| x_u, RandAugment(x_u) | views.weak, views.strong |
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import jax.numpy as jnp
from annotated_types import Ge, Lt

from metapl import optim
from metapl.algorithms.losses import accuracy, cross_entropies, cross_entropy, one_hot_best, sharpen
from metapl.algorithms.passes import together
from metapl.types import (
    PSEUDO_LABELS,
    Array,
    Learner,
    LossTerms,
    MethodConfig,
    Metric,
    Network,
    Objective,
    PyTree,
    Views,
)

NONE = -1


@dataclass(frozen=True)
class FlexMatch(MethodConfig):
    """Train on labels, and on the network's own labels above a threshold that is lower for classes learnt less."""

    name: ClassVar[str] = "flexmatch"
    title: ClassVar[str] = "FlexMatch"
    needs_indices: ClassVar[bool] = True
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("learnt_share", "FlexMatch: share of all unlabelled examples that have a class above τ", "share"),
    )

    weight: Annotated[float, Ge(0)] = 1.0
    """λ: factor of the unlabelled term."""
    threshold: Annotated[float, Ge(0), Lt(1)] = 0.95
    """τ: the threshold of the class that is learnt best."""
    optimizer: optim.Optimizer = optim.Optimizer()
    label_smoothing: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Share of each true label that is spread evenly over all classes."""


def objective(config: FlexMatch, network: Network, steps: int) -> Objective:
    """CE(y_l, f(x_l; θ)) + λ mean_u kept CE(ŷ_u, f(RandAugment(x_u); θ))."""
    del steps

    def start(learner: Learner, views: Views, key: Array) -> Array:
        del learner, key
        assert views.indices is not None  # declared
        return jnp.full((views.indices.totals.unlabeled,), NONE, jnp.int32)

    def terms(params: PyTree, learner: Learner, views: Views, key: Array) -> LossTerms:
        shown = [views.labeled, views.weak, views.strong]
        (labeled, weak, strong), stats = together(network, params, learner.stats, shown, key)
        supervised = cross_entropy(views.labels, labeled, config.label_smoothing)

        # kept = [max q ≥ τ β / (2 − β)]
        q, given = sharpen(weak), learner.memory
        confidence, labels = jnp.max(q, axis=-1), jnp.argmax(q, axis=-1).astype(jnp.int32)
        beta = learnt(given, q.shape[-1]).astype(q.dtype)[labels]
        kept = (confidence >= config.threshold * beta / (2 - beta)).astype(q.dtype)
        unsupervised = jnp.mean(kept * cross_entropies(labels, strong))

        # û_n = ŷ_n, for the examples of the batch with max q ≥ τ
        assert views.indices is not None  # declared
        rows = views.indices.unlabeled
        memory = given.at[rows].set(jnp.where(confidence >= config.threshold, labels, given[rows]))
        metrics = {
            "loss": supervised,
            "unlabeled_loss": unsupervised,
            "labeled_accuracy": accuracy(views.labels, labeled),
            "mask_rate": jnp.mean(kept),
            "learnt_share": jnp.mean((memory != NONE).astype(q.dtype)),
            PSEUDO_LABELS: one_hot_best(weak),
        }
        return LossTerms(supervised, stats, metrics, config.weight * unsupervised, weak, strong, memory)

    return Objective(terms, start)


def learnt(given: Array, classes: int) -> Array:
    """β(c) = σ(c) / max(max σ, #none): [C]."""
    counts = jnp.zeros((classes + 1,), jnp.float32).at[given].add(1)  # −1 is the last one
    return counts[:-1] / jnp.max(counts)
