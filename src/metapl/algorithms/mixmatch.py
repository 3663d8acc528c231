"""MixMatch (Berthelot et al., 2019): one guessed label for several views, then Mixup of all examples.

    q     = mean_k f(x_u^k; θ)^(1/T), normalised after the mean                             held fixed
    W     = all of (x_l, y_l), (x_u^1, q), …, (x_u^K, q), shuffled
    (x', p') = Mixup of each of them with its partner in W:  λ ~ Beta(α, α),  λ' = max(λ, 1 − λ)
    L_x   = CE(p', f(x'; θ))                          over the mixed labelled examples
    L_u   = ‖ p' − f(x'; θ) ‖²                        over the mixed unlabelled ones, a mean over examples and classes
    θ'    = θ − η ∇_θ [ L_x + λ_t L_u ],   λ_t = λ_u min(1, t / ramp_steps)

λ' keeps a mixed example nearer to its own than to its partner. The guess q comes from a forward pass of its own,
without gradient, whose statistics are not kept. All mixed examples are in one pass; the authors cut them into batches
of equal composition instead, which only batch norm can tell.

| symbol      | name                                   |
|-------------|----------------------------------------|
| K, x_u^k    | config.views, views.all_weak           |
| T, α        | config.temperature, config.mixup       |
| λ_u, ramp_steps | config.weight, config.ramp_steps   |
| t           | learner.updates                        |
| x_l, y_l    | views.labeled, views.labels            |
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt, Lt

from metapl import optim
from metapl.algorithms.losses import accuracy, cross_entropies, one_hot_best, smooth
from metapl.algorithms.passes import together
from metapl.augment.mixup import Mixture, draw
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
class MixMatch(MethodConfig):
    """Train on mixtures of labelled examples and of unlabelled ones with guessed labels."""

    name: ClassVar[str] = "mixmatch"
    title: ClassVar[str] = "MixMatch"

    weight: Annotated[float, Ge(0)] = 75.0
    """λ_u: factor of the unlabelled term; the authors have 75 on CIFAR-10 and 250 on SVHN."""
    views: Annotated[int, Ge(1)] = 2
    """K: weak views of each unlabelled example whose mean prediction is its guessed label."""
    temperature: Annotated[float, Gt(0)] = 0.5
    """T: below 1 the guessed labels are sharper than the mean prediction."""
    mixup: Annotated[float, Gt(0)] = 0.75
    """α of Mixup's Beta(α, α)."""
    ramp_steps: Annotated[int, Ge(0)] = 16384
    """Steps over which the factor rises linearly from 0; 0: no rise. The authors: 1,024 · 1,024 examples, 64 a step."""
    optimizer: optim.Optimizer = optim.Optimizer()
    label_smoothing: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Share of each true label that is spread evenly over all classes."""

    @property
    def views_needed(self) -> tuple[int, int]:
        """Return K weak views."""
        return self.views, self.strong_views


def objective(config: MixMatch, network: Network, steps: int) -> Objective:
    """L_x + λ_t L_u."""
    del steps

    def terms(params: PyTree, learner: Learner, views: Views, key: Array) -> LossTerms:
        guess_key, mix_key, pass_key = jax.random.split(key, 3)
        x_u = views.all_weak[: config.views]
        q = guess(config, network, params, learner, x_u, guess_key)

        # (x', p')
        one_hot = jax.nn.one_hot(views.labels, q.shape[-1], dtype=q.dtype)
        y_l = smooth(one_hot, one_hot, config.label_smoothing)
        inputs, targets = jnp.concatenate([views.labeled, *x_u]), jnp.concatenate([y_l, *[q] * config.views])
        mixture = nearer_to_itself(draw(mix_key, len(inputs), config.mixup, inputs.dtype))
        mixed, stats = network.apply(params, learner.stats, mixture.mix(inputs), train=True, key=pass_key)
        labels, labeled_size = mixture.mix(targets), len(views.labeled)

        # L_x, L_u
        supervised = jnp.mean(cross_entropies(labels[:labeled_size], mixed[:labeled_size]))
        unsupervised = jnp.mean((labels[labeled_size:] - jax.nn.softmax(mixed[labeled_size:])) ** 2)
        metrics = {
            "loss": supervised,
            "unlabeled_loss": unsupervised,
            "labeled_accuracy": accuracy(labels[:labeled_size], mixed[:labeled_size]),
            PSEUDO_LABELS: one_hot_best(q),
        }
        weighted = ramped(config.weight, config.ramp_steps, learner.updates, q.dtype) * unsupervised
        return LossTerms(supervised, stats, metrics, weighted)

    return Objective(terms)


def guess(
    config: MixMatch, network: Network, params: PyTree, learner: Learner, x_u: tuple[Array, ...], key: Array
) -> Array:
    """Return q of the views x_u: [U, C]."""
    logits, _ = together(network, jax.lax.stop_gradient(params), learner.stats, x_u, key)
    return guessed([jax.nn.softmax(view) for view in logits], config.temperature)


def guessed(predictions: list[Array], temperature: float) -> Array:
    """q: the mean of the views' predictions, sharpened."""
    powers = (sum(predictions[1:], predictions[0]) / len(predictions)) ** (1 / temperature)
    return jax.lax.stop_gradient(powers / jnp.sum(powers, axis=-1, keepdims=True))


def nearer_to_itself(mixture: Mixture) -> Mixture:
    """λ' = max(λ, 1 − λ)."""
    return mixture._replace(part=jnp.maximum(mixture.part, 1 - mixture.part))


def ramped(weight: float, ramp_steps: int, t: Array | int, dtype: jnp.dtype) -> Array | float:
    """λ_t = λ_u min(1, t / ramp_steps)."""
    return weight * jnp.minimum(1.0, jnp.asarray(t, dtype) / ramp_steps) if ramp_steps else weight
