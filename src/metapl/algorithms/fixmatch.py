"""FixMatch (Sohn et al., 2020), the strongest label propagation of the paper's Table 2.

    q    = f(x_u; θ),   ŷ_u = argmax q                                    held fixed
    θ'   = θ − η ∇_θ [ CE(y_l, f(x_l; θ)) + λ [max q ≥ threshold] CE(ŷ_u, f(RandAugment(x_u); θ)) ]

Both terms are means over their batch: who stays below the threshold counts as 0. The ratio μ of unlabelled to labelled
examples is that of the stage's batch sizes; Sohn et al. have μ = 7, λ = 1, threshold 0.95.

| symbol           | name             |
|------------------|------------------|
| f(·;θ)           | network.apply    |
| λ                | config.weight    |
| x_l, y_l         | views.labeled, views.labels |
| x_u              | views.weak       |
| RandAugment(x_u) | views.strong     |
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import jax
import jax.numpy as jnp
import optax
from annotated_types import Ge, Lt

from metapl import optim
from metapl.algorithms import learner as learners
from metapl.algorithms.forward import forward_views
from metapl.algorithms.losses import Consistency, accuracy, consistency, cross_entropy, one_hot_best
from metapl.types import (
    PSEUDO_LABELS,
    Algorithm,
    Array,
    Labeler,
    Learner,
    MethodConfig,
    Metrics,
    Network,
    PyTree,
    Views,
    Weights,
)


@dataclass(frozen=True)
class FixMatch(MethodConfig):
    """Train on labels, and on the network's own confident labels for distorted examples."""

    name: ClassVar[str] = "fixmatch"

    weight: Annotated[float, Ge(0)] = 1.0
    """Factor of the unlabelled term."""
    threshold: Annotated[float, Ge(0), Lt(1)] = 0.95
    """Leave out examples whose best class has a lower probability than this."""
    optimizer: optim.Optimizer = optim.Optimizer()
    label_smoothing: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Share of each true label that is spread evenly over all classes."""


def build(config: FixMatch, network: Network, steps: int) -> Algorithm:
    """Make the method from its settings."""
    optimizer = optim.build(config.optimizer, steps)
    term = Consistency(config.weight, labels="hard", threshold=config.threshold)

    def init(key: Array, views: Views, start: Weights | None) -> Learner:
        return learners.create(network, optimizer, key, views.labeled, start)

    def step(learner: Learner, views: Views, key: Array) -> tuple[Learner, Metrics]:
        def loss_fn(params: PyTree) -> tuple[Array, Any]:
            logits, stats = forward_views(term, network, params, learner.stats, views, key)
            supervised = cross_entropy(views.labels, logits.labeled, config.label_smoothing)
            unsupervised, mask = consistency(term, logits.weak, logits.strong)
            metrics = {
                "loss": supervised,
                "consistency_loss": unsupervised,
                "labeled_accuracy": accuracy(views.labels, logits.labeled),
                "mask_rate": jnp.mean(mask),
                PSEUDO_LABELS: one_hot_best(logits.weak),
            }
            return supervised + config.weight * unsupervised, (metrics, stats)

        (_, (metrics, stats)), gradient = jax.value_and_grad(loss_fn, has_aux=True)(learner.params)
        learner = learners.update(learner, optimizer, gradient, stats)
        return learner, metrics | {"gradient_norm": optax.tree.norm(gradient)}

    return Algorithm(init, step, lambda learner: learner.weights, Labeler(lambda learner: learner.current))
