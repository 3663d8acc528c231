"""UDA: the same answer for an example and for a distorted copy of it.

    θ' = θ − η ∇_θ [ CE(y_l, f(x_l; θ)) + λ CE(StopGradient(f(x_u; θ)^(1/τ)), f(RandAugment(x_u); θ)) ]

| symbol          | name               |
|-----------------|--------------------|
| f(·;θ)          | network.apply      |
| λ, τ            | config.consistency |
| x_u             | views.weak         |
| RandAugment(x_u)| views.strong: whatever the views make of it; Gaussian jitter for points |
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import jax
from annotated_types import Ge, Lt

from metapl import optim
from metapl.algorithms import learner as learners
from metapl.algorithms.forward import forward_views
from metapl.algorithms.losses import Consistency, accuracy, consistency, cross_entropy
from metapl.types import Algorithm, Array, Learner, MethodConfig, Metrics, Network, PyTree, Views, Weights


@dataclass(frozen=True)
class UDA(MethodConfig):
    """Train on labels and on consistency between views."""

    name: ClassVar[str] = "uda"

    consistency: Consistency = Consistency()
    optimizer: optim.Optimizer = optim.Optimizer()
    label_smoothing: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Share of each true label that is spread evenly over all classes; the consistency term has its own targets."""


def build(config: UDA, network: Network, steps: int) -> Algorithm:
    """Make the method from its settings."""
    optimizer = optim.build(config.optimizer, steps)

    def init(key: Array, views: Views, start: Weights | None) -> Learner:
        return learners.create(network, optimizer, key, views.labeled, start)

    def step(learner: Learner, views: Views, key: Array) -> tuple[Learner, Metrics]:
        def loss_fn(params: PyTree) -> tuple[Array, Any]:
            logits, stats = forward_views(config.consistency, network, params, learner.stats, views, key)
            supervised = cross_entropy(views.labels, logits.labeled, config.label_smoothing)
            unsupervised, _ = consistency(config.consistency, logits.weak, logits.learning(config.consistency))
            return supervised + config.consistency.weight * unsupervised, (supervised, unsupervised, logits, stats)

        (_, (supervised, unsupervised, logits, stats)), gradient = jax.value_and_grad(loss_fn, has_aux=True)(
            learner.params
        )
        learner = learners.update(learner, optimizer, gradient, stats)
        return learner, {
            "loss": supervised,
            "consistency_loss": unsupervised,
            "labeled_accuracy": accuracy(views.labels, logits.labeled),
        }

    return Algorithm(init, step, lambda learner: learner.weights)
