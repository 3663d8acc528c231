"""Supervised learning, and finetuning when a stage before hands on its weights.

    θ' = θ − η ∇_θ CE(y_l, f(x_l; θ))                    y_l with config.label_smoothing

| symbol | name           |
|--------|----------------|
| f(·;θ) | network.apply  |
| x_l    | views.labeled  |
| y_l    | views.labels   |
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import jax
from annotated_types import Ge, Lt

from metapl import optim
from metapl.algorithms import learner as learners
from metapl.algorithms.losses import accuracy, cross_entropy
from metapl.types import Algorithm, Array, Learner, MethodConfig, Metrics, Network, PyTree, Views, Weights


@dataclass(frozen=True)
class Supervised(MethodConfig):
    """Train on the labelled examples alone."""

    name: ClassVar[str] = "supervised"

    optimizer: optim.Optimizer = optim.Optimizer()
    label_smoothing: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Share of each label that is spread evenly over all classes."""


def build(config: Supervised, network: Network, steps: int) -> Algorithm:
    """Make the method from its settings."""
    optimizer = optim.build(config.optimizer, steps)

    def init(key: Array, views: Views, start: Weights | None) -> Learner:
        return learners.create(network, optimizer, key, views.labeled, start)

    def step(learner: Learner, views: Views, key: Array) -> tuple[Learner, Metrics]:
        def loss_fn(params: PyTree) -> tuple[Array, Any]:
            logits, stats = network.apply(params, learner.stats, views.labeled, train=True, key=key)
            return cross_entropy(views.labels, logits, config.label_smoothing), (logits, stats)

        (loss, (logits, stats)), gradient = jax.value_and_grad(loss_fn, has_aux=True)(learner.params)
        learner = learners.update(learner, optimizer, gradient, stats)
        return learner, {"loss": loss, "labeled_accuracy": accuracy(views.labels, logits)}

    return Algorithm(init, step, lambda learner: learner.weights)
