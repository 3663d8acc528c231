"""Virtual Adversarial Training (Miyato et al., 2018), with entropy minimisation (Grandvalet and Bengio, 2004).

    p      = f(x_u; θ)                                                    held fixed in D and in r_adv
    D(r)   = KL(p ‖ f(x_u + r; θ)),   H = ∇²_r D(0)
    d      ← H d / ‖H d‖,   `power_steps` times, from a random direction
    r_adv  = ε d                                                          held fixed
    θ'     = θ − η ∇_θ [ CE(y_l, f(x_l; θ)) + λ mean_u D(r_adv) + λ_e mean_u H(f(x_u; θ)) ]

The paper approximates H d by a difference of gradients at a distance ξ. With J the derivative of the logits with
respect to r, H = Jᵀ (diag p − p pᵀ) J exactly: one product in forward and one in reverse mode, and no ξ.
All passes over x_u have the same dropout mask; only the statistics of the first are kept.

| symbol   | name                            |
|----------|---------------------------------|
| ε        | config.radius                   |
| λ, λ_e   | config.weight, config.entropy_weight |
| x_l, y_l | views.labeled, views.labels     |
| x_u      | views.weak                      |
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt, Lt

from metapl import optim
from metapl.algorithms.losses import accuracy, cross_entropy, one_hot_best, sharpen
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
class VAT(MethodConfig):
    """Train on labels, and on predictions that no small change of an example changes."""

    name: ClassVar[str] = "vat"
    title: ClassVar[str] = "VAT"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("unlabeled_entropy", "entropy of the predictions for unlabelled examples", "loss"),
    )

    weight: Annotated[float, Ge(0)] = 1.0
    """λ: factor of the adversarial term."""
    entropy_weight: Annotated[float, Ge(0)] = 1.0
    """λ_e: factor of the entropy term ("VAT + EntMin"); 0: VAT alone."""
    radius: Annotated[float, Gt(0)] = 8.0
    """ε: length of the change of an example, in the units of the views; the authors have 8 on CIFAR-10, 3.5 on SVHN."""
    power_steps: Annotated[int, Ge(1)] = 1
    """Steps of the power iteration that finds the worst direction."""
    optimizer: optim.Optimizer = optim.Optimizer()
    label_smoothing: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Share of each true label that is spread evenly over all classes."""


def objective(config: VAT, network: Network, steps: int) -> Objective:
    """CE(y_l, f(x_l; θ)) + λ D(r_adv) + λ_e H(f(x_u; θ))."""
    del steps

    def terms(params: PyTree, learner: Learner, views: Views, key: Array) -> LossTerms:
        labeled_key, unlabeled_key, direction_key = jax.random.split(key, 3)
        labeled, stats = network.apply(params, learner.stats, views.labeled, train=True, key=labeled_key)
        supervised = cross_entropy(views.labels, labeled, config.label_smoothing)
        weak, stats = network.apply(params, stats, views.weak, train=True, key=unlabeled_key)

        def logits_at(params: PyTree, inputs: Array) -> Array:
            return network.apply(params, learner.stats, inputs, train=True, key=unlabeled_key)[0]

        # KL(p ‖ f(x_u + r_adv; θ)), H(f(x_u; θ))
        worst = Worst(config.radius, config.power_steps)
        divergence = worst.divergence(logits_at, params, views.weak, sharpen(weak), direction_key)
        entropy = -jnp.mean(jnp.sum(jax.nn.softmax(weak) * jax.nn.log_softmax(weak), axis=-1))
        metrics = {
            "loss": supervised,
            "consistency_loss": divergence,
            "unlabeled_entropy": entropy,
            "labeled_accuracy": accuracy(views.labels, labeled),
            PSEUDO_LABELS: one_hot_best(weak),
        }
        unlabeled = config.weight * divergence + config.entropy_weight * entropy
        return LossTerms(supervised, stats, metrics, unlabeled, weak)

    return Objective(terms)


class Worst(NamedTuple):
    """The worst change of an example: how long it is, and how long it is searched for."""

    radius: float
    power_steps: int

    def divergence(
        self, logits_at: Callable[[PyTree, Array], Array], params: PyTree, inputs: Array, p: Array, key: Array
    ) -> Array:
        """KL(p ‖ f(x + r_adv; θ)), a mean over the batch; `p` are the predictions for x, held fixed."""
        fixed = jax.lax.stop_gradient(params)
        d = jax.lax.stop_gradient(self.direction(lambda x: logits_at(fixed, x), inputs, p, key))
        moved = logits_at(params, inputs + self.radius * d)
        return jnp.mean(jnp.sum(p * (jnp.log(p + 1e-12) - jax.nn.log_softmax(moved)), axis=-1))

    def direction(self, logits_at: Callable[[Array], Array], inputs: Array, p: Array, key: Array) -> Array:
        """d ← H d / ‖H d‖ for each example, with H = Jᵀ (diag p − p pᵀ) J."""
        d = unit(jax.random.normal(key, inputs.shape, inputs.dtype))
        _, backward = jax.vjp(logits_at, inputs)
        for _ in range(self.power_steps):
            _, along = jax.jvp(logits_at, (inputs,), (d,))
            d = unit(backward(p * (along - jnp.sum(p * along, axis=-1, keepdims=True)))[0])
        return d


def unit(changes: Array) -> Array:
    """Scale each example's change to length 1; a change of 0 stays 0."""
    flat = changes.reshape(len(changes), -1)
    largest = jnp.max(jnp.abs(flat), axis=-1, keepdims=True)  # first, so that no square of a small number vanishes
    scaled = flat / jnp.where(largest > 0, largest, 1)
    length = jnp.linalg.norm(scaled, axis=-1, keepdims=True)
    return (scaled / jnp.where(length > 0, length, 1)).reshape(changes.shape)
