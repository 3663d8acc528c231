"""FreeMatch (Wang et al., 2023): FixMatch with thresholds that follow what the network has learnt.

    q     = f(x_u; θ),   ŷ_u = argmax q,   Q = f(RandAugment(x_u); θ)                     q, ŷ_u held fixed
    τ_t   = m τ_{t−1} + (1 − m) mean_u max q                                              τ_0 = 1 / C
    p̃_t   = m p̃_{t−1} + (1 − m) mean_u q                                                  p̃_0 = 1 / C for each class
    h̃_t   = m h̃_{t−1} + (1 − m) mean_u onehot(ŷ_u)                                        h̃_0 = 1 / C
    kept  = [max q ≥ τ_t p̃_t(ŷ_u) / max_c p̃_t(c)]
    L_u   = mean_u kept CE(ŷ_u, Q)
    L_f   = Σ_c SumNorm(p̃_t / h̃_t)_c log SumNorm(p̄ / h̄)_c                               p̄, h̄: means over kept examples
    θ'    = θ − η ∇_θ [ CE(y_l, f(x_l; θ)) + λ_u L_u + λ_f L_f ]                           of Q and of onehot(argmax Q)

L_f is minus a cross-entropy: it drives the predictions apart from each other. SumNorm divides by the sum; a class that
no kept example has is left out of p̄ / h̄. If no example is kept, L_f is 0.

| symbol      | name                                      |
|-------------|-------------------------------------------|
| τ, p̃, h̃     | Memory.threshold, Memory.shares, Memory.histogram |
| m           | config.average                            |
| λ_u, λ_f    | config.weight, config.fairness_weight     |
| x_l, y_l    | views.labeled, views.labels               |
| x_u, RandAugment(x_u) | views.weak, views.strong        |
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from annotated_types import Ge, Lt

from metapl import optim
from metapl.algorithms import learner as learners
from metapl.algorithms.losses import accuracy, cross_entropies, cross_entropy, moving, one_hot_best, sharpen
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


@dataclass(frozen=True)
class FreeMatch(MethodConfig):
    """Train on labels, and on the network's own labels above thresholds that each class earns."""

    name: ClassVar[str] = "freematch"
    title: ClassVar[str] = "FreeMatch"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("threshold", "FreeMatch's τ: the probability that a label of the best-learnt class needs", "share"),
        Metric("fairness_loss", "FreeMatch's L_f, before its factor", "loss"),
    )

    weight: Annotated[float, Ge(0)] = 1.0
    """λ_u: factor of the unlabelled term."""
    fairness_weight: Annotated[float, Ge(0)] = 0.01
    """λ_f: factor of the fairness term; the authors' code (USB) has 0.01, and 0.001 in its CIFAR-10 and SVHN files."""
    average: Annotated[float, Ge(0), Lt(1)] = 0.999
    """m: share that each step keeps of the moving averages of confidence and of classes."""
    optimizer: optim.Optimizer = optim.Optimizer()
    label_smoothing: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Share of each true label that is spread evenly over all classes."""


class Memory(NamedTuple):
    """Moving averages over the unlabelled batches."""

    threshold: Array  # of the best class's probability
    shares: Array  # [C] of the probabilities
    histogram: Array  # [C] of the labels


def objective(config: FreeMatch, network: Network, steps: int) -> Objective:
    """CE(y_l, f(x_l; θ)) + λ_u L_u + λ_f L_f."""
    del steps

    def start(learner: Learner, views: Views, key: Array) -> Memory:
        del key
        classes, dtype = learners.classes(network, learner, views.weak), views.weak.dtype
        even = jnp.full((classes,), 1 / classes, dtype)
        return Memory(jnp.full((), 1 / classes, dtype), even, even)

    def terms(params: PyTree, learner: Learner, views: Views, key: Array) -> LossTerms:
        shown = [views.labeled, views.weak, views.strong]
        (labeled, weak, strong), stats = together(network, params, learner.stats, shown, key)
        supervised = cross_entropy(views.labels, labeled, config.label_smoothing)

        # τ_t, p̃_t, h̃_t
        q = sharpen(weak)
        means = Memory(jnp.mean(jnp.max(q, axis=-1)), jnp.mean(q, axis=0), jnp.mean(one_hot_best(weak), axis=0))
        memory = Memory(*(moving(*pair, config.average) for pair in zip(learner.memory, means, strict=True)))

        # L_u
        labels = jnp.argmax(q, axis=-1)
        threshold = memory.threshold * (memory.shares / jnp.max(memory.shares))[labels]
        kept = (jnp.max(q, axis=-1) >= threshold).astype(q.dtype)
        unsupervised = jnp.mean(kept * cross_entropies(labels, strong))

        fairness = fairness_loss(memory, strong, kept)
        metrics = {
            "loss": supervised,
            "unlabeled_loss": unsupervised,
            "fairness_loss": fairness,
            "labeled_accuracy": accuracy(views.labels, labeled),
            "mask_rate": jnp.mean(kept),
            "threshold": memory.threshold,
            PSEUDO_LABELS: one_hot_best(weak),
        }
        unlabeled = config.weight * unsupervised + config.fairness_weight * fairness
        return LossTerms(supervised, stats, metrics, unlabeled, weak, strong, memory)

    return Objective(terms, start)


def fairness_loss(memory: Memory, strong: Array, kept: Array) -> Array:
    """L_f = Σ_c SumNorm(p̃ / h̃)_c log SumNorm(p̄ / h̄)_c; 0 if no example is kept."""
    some = jnp.sum(kept)
    p_bar = jnp.sum(kept[:, None] * jax.nn.softmax(strong), axis=0) / jnp.maximum(some, 1)
    h_bar = jnp.sum(kept[:, None] * one_hot_best(strong), axis=0) / jnp.maximum(some, 1)
    ours = jnp.where(h_bar > 0, p_bar / jnp.where(h_bar > 0, h_bar, 1), 0)
    theirs = memory.shares / jnp.maximum(memory.histogram, 1e-12)
    ours, theirs = (parts / jnp.maximum(jnp.sum(parts), 1e-12) for parts in (ours, theirs))
    return jnp.where(some > 0, jnp.sum(theirs * jnp.log(ours + 1e-12)), 0)
