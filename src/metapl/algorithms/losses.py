"""The losses of the paper's Section 2. CE(q, p) is a mean over the batch, as the paper says."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

import jax
import jax.numpy as jnp
import optax
from annotated_types import Ge, Lt

from metapl.types import Array


@dataclass(frozen=True)
class Consistency:
    """The term on unlabelled examples: a network's answer to one view is the target of another.

    Soft targets on the strong view are UDA's, hard ones FixMatch's; hard targets on the weak view are Pseudo Labels
    that a network gives itself.
    """

    weight: Annotated[float, Ge(0)] = 1.0
    """Factor of the term (the paper's UDA factor)."""
    temperature: Annotated[float, Ge(1e-6)] = 1.0
    """The target is softmax(logits / temperature): below 1 it is sharper than the network's answer. Far below, the
    quotient is no number: labels = "hard" is the limit."""
    labels: Literal["soft", "hard"] = "soft"
    """Learn from the whole target, or from its best class alone."""
    view: Literal["strong", "weak"] = "strong"
    """The view that learns from the target, which is the answer to the weak one."""
    threshold: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Leave out examples whose target's best class has a lower probability than this (released code: 0.6)."""
    ramp_steps: Annotated[int, Ge(0)] = 0
    """Steps over which the factor rises from 0 to `weight`, in a line (released code: 5,000)."""
    labeled_cap: Literal["none", "linear", "log", "exp"] = "none"
    """Leave out labelled examples whose own class is more probable than a cap that rises from 1/C to 1, like this."""
    passes: Literal["one", "apart"] = "one"
    """Show the network all views at once, with common batch statistics, or each in a pass of its own."""

    def check(self) -> None:
        """Refuse a term whose gradient is zero: the released code's error, in another place."""
        if self.view == "weak" and self.labels == "soft" and self.temperature == 1:
            raise ValueError("an answer that is its own soft target teaches nothing; set labels to 'hard'")


def cross_entropy(targets: Array, logits: Array, smoothing: float = 0.0) -> Array:
    """CE(q, softmax(logits)): `targets` are labels [B] or distributions [B, C]."""
    return jnp.mean(cross_entropies(smooth(targets, logits, smoothing), logits))


def smooth(targets: Array, logits: Array, smoothing: float) -> Array:
    """(1 − α) q + α / C; without smoothing the targets as they are."""
    if not smoothing:
        return targets
    if targets.ndim < logits.ndim:
        targets = jax.nn.one_hot(targets, logits.shape[-1], dtype=logits.dtype)
    return optax.smooth_labels(targets, smoothing)


def cross_entropies(targets: Array, logits: Array) -> Array:
    """One cross-entropy for each example: [B]."""
    if targets.ndim == logits.ndim:
        return optax.softmax_cross_entropy(logits, targets)
    return optax.softmax_cross_entropy_with_integer_labels(logits, targets)


def label_costs(logits: Array, smoothing: float = 0.0) -> Array:
    """CE(c, softmax(logits)) for each label c that an example could get: [B, C]."""
    costs = -jax.nn.log_softmax(logits)
    return (1 - smoothing) * costs + smoothing * jnp.mean(costs, axis=-1, keepdims=True) if smoothing else costs


def consistency(config: Consistency, target_logits: Array, logits: Array) -> tuple[Array, Array]:
    """CE(StopGradient(q), softmax(logits)), q = softmax(target_logits / τ), and who takes part: [U] of 0 and 1.

    Who does not counts as 0 in the mean over all U, as in the released code and in FixMatch.
    """
    targets = jax.lax.stop_gradient(jax.nn.softmax(target_logits / config.temperature))
    mask = confident(targets, config.threshold)
    if config.labels == "hard":
        targets = jnp.argmax(targets, axis=-1)
    costs = cross_entropies(targets, logits)
    return jnp.mean(mask * costs if config.threshold else costs), mask


def confident(probabilities: Array, threshold: float) -> Array:
    """1 for each example whose best class has at least this probability: [B]."""
    return (jnp.max(probabilities, axis=-1) >= threshold).astype(probabilities.dtype)


def ramped(config: Consistency, loss: Array, step: Array | int) -> Array:
    """λ · min(1, t / ramp_steps) · loss, as in the released code."""
    if not config.ramp_steps:
        return config.weight * loss
    return config.weight * jnp.minimum(1.0, jnp.asarray(step, loss.dtype) / config.ramp_steps) * loss


def capped_cross_entropy(
    config: Consistency, labels: Array, logits: Array, smoothing: float, progress: Array | float
) -> tuple[Array, Array]:
    """CE(y, softmax(logits)) over examples with p_y ≤ 1/C + (1 − 1/C) rise(progress), and who those are: [B].

    The paper masks confident labelled examples (Appendix C.4) and does not say how. UDA's training signal annealing has
    these three rises (Xie et al., 2020, Section 3.2); the released code computes the linear one and then does not use
    it. Its mean is over all B, and so is ours.
    """
    if config.labeled_cap == "none":
        return cross_entropy(labels, logits, smoothing), jnp.ones(len(labels), logits.dtype)
    even = 1 / logits.shape[-1]
    cap = even + (1 - even) * RISES[config.labeled_cap](jnp.asarray(progress, logits.dtype))
    own = jnp.take_along_axis(jax.nn.softmax(logits), labels[:, None], axis=-1)[:, 0]
    mask = jax.lax.stop_gradient((own <= cap).astype(logits.dtype))
    return jnp.mean(mask * cross_entropies(smooth(labels, logits, smoothing), logits)), mask


RISES: dict[str, Callable[[Array], Array]] = {  # from 0 to 1, up to e⁻⁵
    "linear": lambda progress: progress,
    "log": lambda progress: 1 - jnp.exp(-5 * progress),
    "exp": lambda progress: jnp.exp(5 * (progress - 1)),
}


def accuracy(labels: Array, logits: Array) -> Array:
    """Share of the batch whose largest logit is the label's; of a distribution [B, C], its best class."""
    if labels.ndim == logits.ndim:
        labels = jnp.argmax(labels, axis=-1)
    return jnp.mean((jnp.argmax(logits, axis=-1) == labels).astype(logits.dtype))


def one_hot_best(logits: Array) -> Array:
    """The best class, as a distribution: [B, C]."""
    return jax.nn.one_hot(jnp.argmax(logits, axis=-1), logits.shape[-1], dtype=logits.dtype)
