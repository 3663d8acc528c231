"""Label Gradient Alignment (Jackson and Schulman, 2019): labels whose gradient is that of the labelled examples.

    g_l  = ∇_θ CE(y_l, f(x_l; θ)),   g_u = ∇_θ CE(ŷ_u, f(x_u; θ))
    D    = ½ ‖ g_l − g_u ‖²
    ŷ_u  ← Π( ŷ_u − ρ ∂D/∂ŷ_u ),     ∂D/∂ŷ_uc = ⟨ g_l − g_u, ∇_θ log f_c(x_u; θ) ⟩ / U         Π: onto distributions
    θ'   = θ − η ∇_θ [ CE(y_l, f(x_l; θ)) + λ_t CE(ŷ_u, f(x_u; θ)) + λ_v VAT ]                 ŷ_u held fixed
    λ_t  = λ exp(−5 (1 − min(1, t / ramp_steps))²)

Every unlabelled example has a label of its own, which starts even. A label moves to the classes that lower the labelled
loss when the network learns them: the same product as MPL's feedback (feedback.py), but it changes labels in a table,
not a teacher. CE is linear in the label, so one derivative in forward mode gives ∂D/∂ŷ for all examples and classes.

The idea is the paper's, and so is VAT beside it (Table 2's row "LGA + VAT"). Our own choices are the distance D between
mean gradients, the projection Π, and the scale of ρ: ∂D/∂ŷ_u is divided by its mean length over the batch, so that
ρ is how far a label moves at a step.

| symbol    | name                               |
|-----------|------------------------------------|
| ŷ         | learner.memory [N, C]              |
| ρ         | config.label_rate                  |
| λ, λ_v    | config.weight, config.vat_weight   |
| t         | learner.updates                    |
| x_l, y_l  | views.labeled, views.labels        |
| x_u       | views.weak                         |
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import jax
import jax.numpy as jnp
import optax
from annotated_types import Ge, Gt, Lt

from metapl import optim
from metapl.algorithms import learner as learners
from metapl.algorithms.losses import accuracy, cross_entropy, risen, sharpen
from metapl.algorithms.vat import Worst
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
class LGA(MethodConfig):
    """Train on labels, and on imputed labels that are moved until their gradient is that of the true ones."""

    name: ClassVar[str] = "lga"
    title: ClassVar[str] = "LGA"
    needs_indices: ClassVar[bool] = True
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("label_distance", "LGA's D: half the squared distance of the two gradients", "loss"),
    )

    weight: Annotated[float, Ge(0)] = 1.0
    """λ: factor of the term on imputed labels after the rise."""
    label_rate: Annotated[float, Gt(0)] = 0.1
    """ρ: how far a label moves at a step, on average over the batch."""
    ramp_steps: Annotated[int, Ge(0)] = 0
    """Steps over which the factor rises like exp(−5 (1 − t)²); 0: no rise."""
    vat_weight: Annotated[float, Ge(0)] = 0.0
    """λ_v: factor of VAT's term; 0 leaves it out, 1 is "LGA + VAT"."""
    radius: Annotated[float, Gt(0)] = 8.0
    """VAT's ε: length of the change of an example, in the units of the views."""
    power_steps: Annotated[int, Ge(1)] = 1
    """VAT's steps of the power iteration."""
    optimizer: optim.Optimizer = optim.Optimizer()
    label_smoothing: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Share of each true label that is spread evenly over all classes."""


def objective(config: LGA, network: Network, steps: int) -> Objective:
    """CE(y_l, f(x_l; θ)) + λ_t CE(ŷ_u, f(x_u; θ)) + λ_v VAT."""
    del steps

    def start(learner: Learner, views: Views, key: Array) -> Array:
        del key
        assert views.indices is not None  # declared
        classes = learners.classes(network, learner, views.weak)
        return jnp.full((views.indices.totals.unlabeled, classes), 1 / classes, views.weak.dtype)

    def terms(params: PyTree, learner: Learner, views: Views, key: Array) -> LossTerms:
        assert views.indices is not None  # declared
        rows = views.indices.unlabeled
        labeled_key, unlabeled_key, direction_key = jax.random.split(key, 3)

        def labeled_at(params: PyTree) -> tuple[Array, PyTree]:
            return network.apply(params, learner.stats, views.labeled, train=True, key=labeled_key)

        def logits_at(params: PyTree, inputs: Array) -> Array:
            return network.apply(params, learner.stats, inputs, train=True, key=unlabeled_key)[0]

        # ŷ_u ← Π( ŷ_u − ρ ∂D/∂ŷ_u )
        fixed, old = jax.lax.stop_gradient(params), learner.memory[rows]
        apart = jax.grad(
            lambda params: (
                cross_entropy(views.labels, labeled_at(params)[0]) - cross_entropy(old, logits_at(params, views.weak))
            )
        )(fixed)
        _, along = jax.jvp(lambda params: jax.nn.log_softmax(logits_at(params, views.weak)), (fixed,), (apart,))
        labels = jax.lax.stop_gradient(nearest_distributions(old - step_of(config, along)))

        # CE(y_l, f(x_l; θ)) + λ_t CE(ŷ_u, f(x_u; θ)) + λ_v VAT
        labeled, stats = labeled_at(params)
        weak, stats = network.apply(params, stats, views.weak, train=True, key=unlabeled_key)
        supervised = cross_entropy(views.labels, labeled, config.label_smoothing)
        imputed = cross_entropy(labels, weak)
        unlabeled = risen(config.weight, learner.updates, config.ramp_steps, imputed.dtype) * imputed
        metrics = {
            "loss": supervised,
            "unlabeled_loss": imputed,
            "label_distance": optax.tree.norm(apart, squared=True) / 2,
            "labeled_accuracy": accuracy(views.labels, labeled),
            PSEUDO_LABELS: labels,
        }
        if config.vat_weight:
            worst = Worst(config.radius, config.power_steps)
            divergence = worst.divergence(logits_at, params, views.weak, sharpen(weak), direction_key)
            unlabeled += config.vat_weight * divergence
            metrics["consistency_loss"] = divergence
        return LossTerms(supervised, stats, metrics, unlabeled, weak, memory=learner.memory.at[rows].set(labels))

    return Objective(terms, start, labeler=None)


def step_of(config: LGA, along: Array) -> Array:
    """ρ ∂D/∂ŷ_u over its mean length; what all classes of an example share is no direction, so it is left out."""
    slope = along - jnp.mean(along, axis=-1, keepdims=True)
    length = jnp.mean(jnp.linalg.norm(slope, axis=-1))
    return config.label_rate * slope / jnp.where(length > 0, length, 1)


def nearest_distributions(points: Array) -> Array:
    """Π: lower all classes by one number, none below 0, so that the sum is 1; optax's version mixes dtypes."""
    falling = jnp.flip(jnp.sort(points, axis=-1), axis=-1)
    counts = jnp.arange(1, points.shape[-1] + 1, dtype=points.dtype)
    excess = (jnp.cumsum(falling, axis=-1) - 1) / counts  # to take from each, if the largest so many stay above 0
    stay = jnp.sum((falling > excess).astype(jnp.int32), axis=-1, keepdims=True)
    return jnp.maximum(points - jnp.take_along_axis(excess, stay - 1, axis=-1), 0)
