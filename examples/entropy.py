"""Entropy minimisation (Grandvalet and Bengio, 2004): a method in one file, as an example of how to add one.

    θ' = θ − η ∇_θ [ CE(y_l, f(x_l; θ)) + λ H(f(x_u; θ)) ],    H(p) = −Σ_c p_c log p_c, a mean over the batch

The term makes the network certain about unlabelled examples, even if their class is wrong.

| symbol | name           |
|--------|----------------|
| f(·;θ) | network.apply  |
| λ      | config.weight  |
| x_u    | views.weak     |
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import jax
import jax.numpy as jnp
from annotated_types import Ge

from metapl import optim
from metapl.algorithms.losses import accuracy, cross_entropy, one_hot_best
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


@dataclass(frozen=True)
class Entropy(MethodConfig):
    """Train on labels, and on low entropy for unlabelled examples."""

    name: ClassVar[str] = "entropy"
    title: ClassVar[str] = "Entropy minimisation"
    metrics: ClassVar[tuple[Metric, ...]] = (Metric("entropy", "of the predictions for unlabelled examples", "loss"),)

    weight: Annotated[float, Ge(0)] = 0.1
    """Factor of the entropy of the predictions for unlabelled examples."""
    optimizer: optim.Optimizer = optim.Optimizer()


def objective(config: Entropy, network: Network, steps: int) -> Objective:
    """CE(y_l, f(x_l; θ)) + λ H(f(x_u; θ))."""
    del steps  # a method with a schedule would need them

    def terms(params: PyTree, learner: Learner, views: Views, key: Array) -> LossTerms:
        inputs = jnp.concatenate([views.labeled, views.weak])
        logits, stats = network.apply(params, learner.stats, inputs, train=True, key=key)
        labeled, unlabeled = jnp.split(logits, [len(views.labeled)])
        supervised, unsure = cross_entropy(views.labels, labeled), entropy(unlabeled)
        metrics = {
            "loss": supervised,
            "entropy": unsure,
            "labeled_accuracy": accuracy(views.labels, labeled),
            PSEUDO_LABELS: one_hot_best(unlabeled),
        }
        return LossTerms(supervised, stats, metrics, config.weight * unsure, weak_logits=unlabeled)

    return Objective(terms)


def entropy(logits: Array) -> Array:
    """H(softmax(logits)), a mean over the batch."""
    return -jnp.mean(jnp.sum(jax.nn.softmax(logits) * jax.nn.log_softmax(logits), axis=-1))
