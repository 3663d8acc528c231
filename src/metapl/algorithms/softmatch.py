"""SoftMatch (Chen et al., 2023): every label counts, by how sure the network is compared with its average.

    q    = f(x_u; θ),   ŷ_u = argmax q                                                     held fixed
    p̃_t  = m p̃_{t−1} + (1 − m) mean_u q                                                    p̃_0 = 1 / C for each class
    a    = q (1 / C) / p̃_t, normalised                                                     uniform alignment
    μ_t  = m μ_{t−1} + (1 − m) mean_u max a                                                μ_0 = 1 / C
    v_t  = m v_{t−1} + (1 − m) var_u max a                                                 v_0 = 1
    w    = exp(−min(max a − μ_t, 0)² n² / (2 v_t))
    θ'   = θ − η ∇_θ [ CE(y_l, f(x_l; θ)) + λ mean_u w CE(ŷ_u, f(RandAugment(x_u); θ)) ]

The alignment is in the weights w alone; ŷ_u is not aligned. `var` has U − 1 in its denominator. n narrows the
Gaussian, as in the authors' code (n = 2).

| symbol   | name                                     |
|----------|------------------------------------------|
| p̃, μ, v  | Memory.shares, Memory.mean, Memory.variance |
| m, n     | config.average, config.narrowing         |
| λ        | config.weight                            |
| x_l, y_l | views.labeled, views.labels              |
| x_u, RandAugment(x_u) | views.weak, views.strong    |
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import jax.numpy as jnp
from annotated_types import Ge, Gt, Lt

from metapl import optim
from metapl.algorithms import learner as learners
from metapl.algorithms.losses import (
    accuracy,
    aligned,
    cross_entropies,
    cross_entropy,
    moving,
    one_hot_best,
    sharpen,
)
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
class SoftMatch(MethodConfig):
    """Train on labels, and on the network's own labels, weighted by a Gaussian of their confidence."""

    name: ClassVar[str] = "softmatch"
    title: ClassVar[str] = "SoftMatch"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("confidence", "SoftMatch's μ: moving average of the best class's probability", "share"),
    )

    weight: Annotated[float, Ge(0)] = 1.0
    """λ: factor of the unlabelled term."""
    average: Annotated[float, Ge(0), Lt(1)] = 0.999
    """m: share that each step keeps of the moving averages."""
    narrowing: Annotated[float, Gt(0)] = 2.0
    """n: the Gaussian's standard deviation is that of the confidences divided by this."""
    alignment: bool = True
    """Compute the weights from probabilities that are aligned to equally frequent classes."""
    optimizer: optim.Optimizer = optim.Optimizer()
    label_smoothing: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Share of each true label that is spread evenly over all classes."""

    def check_batches(self, labeled: int, unlabeled: int) -> None:
        """Refuse a batch without a variance."""
        if unlabeled < 2:
            raise ValueError(f"unlabeled_batch = {unlabeled}: softmatch takes the variance of a batch; take at least 2")


class Memory(NamedTuple):
    """Moving averages over the unlabelled batches."""

    shares: Array  # [C] of the probabilities
    mean: Array  # of the confidence
    variance: Array


def objective(config: SoftMatch, network: Network, steps: int) -> Objective:
    """CE(y_l, f(x_l; θ)) + λ mean_u w CE(ŷ_u, f(RandAugment(x_u); θ))."""
    del steps

    def start(learner: Learner, views: Views, key: Array) -> Memory:
        del key
        classes, dtype = learners.classes(network, learner, views.weak), views.weak.dtype
        even = jnp.full((classes,), 1 / classes, dtype)
        return Memory(even, jnp.full((), 1 / classes, dtype), jnp.ones((), dtype))

    def terms(params: PyTree, learner: Learner, views: Views, key: Array) -> LossTerms:
        shown = [views.labeled, views.weak, views.strong]
        (labeled, weak, strong), stats = together(network, params, learner.stats, shown, key)
        supervised = cross_entropy(views.labels, labeled, config.label_smoothing)

        # p̃_t, a, μ_t, v_t
        q, old = sharpen(weak), learner.memory
        shares = moving(old.shares, jnp.mean(q, axis=0), config.average)
        even = jnp.full_like(shares, 1 / len(shares))
        confidence = jnp.max(aligned(q, even, shares) if config.alignment else q, axis=-1)
        mean = moving(old.mean, jnp.mean(confidence), config.average)
        variance = moving(old.variance, jnp.var(confidence, ddof=1), config.average)

        # w CE(ŷ_u, f(RandAugment(x_u); θ))
        below = jnp.minimum(confidence - mean, 0)
        weights = jnp.exp(-(below**2) * config.narrowing**2 / (2 * variance))
        unsupervised = jnp.mean(weights * cross_entropies(jnp.argmax(q, axis=-1), strong))
        metrics = {
            "loss": supervised,
            "unlabeled_loss": unsupervised,
            "labeled_accuracy": accuracy(views.labels, labeled),
            "mask_rate": jnp.mean(weights),
            "confidence": mean,
            PSEUDO_LABELS: one_hot_best(weak),
        }
        memory = Memory(shares, mean, variance)
        return LossTerms(supervised, stats, metrics, config.weight * unsupervised, weak, strong, memory)

    return Objective(terms, start)
