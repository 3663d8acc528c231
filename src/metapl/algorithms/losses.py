"""Small pieces that the methods' losses share. CE(q, p) is a mean over the batch, as the paper says."""

import jax
import jax.numpy as jnp
import optax

from metapl.types import Array


def cross_entropy(targets: Array, logits: Array, smoothing: float = 0.0) -> Array:
    """CE(q, softmax(logits)): `targets` are labels [B] or distributions [B, C]."""
    return jnp.mean(cross_entropies(smooth(targets, logits, smoothing), logits))


def smooth(targets: Array, logits: Array, smoothing: float) -> Array:
    """(1 − α) q + α / C; without smoothing the targets are returned unchanged."""
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


def sharpen(logits: Array, temperature: float = 1.0) -> Array:
    """StopGradient(p^(1/τ)), normalised, where p = softmax(logits): a target that no gradient flows into."""
    return jax.lax.stop_gradient(jax.nn.softmax(logits / temperature))


def confident(probabilities: Array, threshold: float) -> Array:
    """1 for each example whose best class has at least this probability, else 0: [B]."""
    return (jnp.max(probabilities, axis=-1) >= threshold).astype(probabilities.dtype)


def accuracy(labels: Array, logits: Array) -> Array:
    """Share of the batch whose largest logit is the label's; for distributions [B, C], that of their best class."""
    if labels.ndim == logits.ndim:
        labels = jnp.argmax(labels, axis=-1)
    return jnp.mean((jnp.argmax(logits, axis=-1) == labels).astype(logits.dtype))


def one_hot_best(logits: Array) -> Array:
    """The best class as a distribution: [B, C]."""
    return jax.nn.one_hot(jnp.argmax(logits, axis=-1), logits.shape[-1], dtype=logits.dtype)


def moving(average: Array, now: Array, decay: float) -> Array:
    """One step of a moving average: decay · average + (1 − decay) · now; no gradient flows into it."""
    return jax.lax.stop_gradient(decay * average + (1 - decay) * now)


def risen(weight: float, t: Array | int, ramp_steps: int, dtype: jnp.dtype) -> Array | float:
    """λ_t = λ exp(−5 (1 − min(1, t / ramp_steps))²): the slow start of Laine and Aila (2017)."""
    if not ramp_steps:
        return weight
    return weight * jnp.exp(-5 * (1 - jnp.minimum(1.0, jnp.asarray(t, dtype) / ramp_steps)) ** 2)


def aligned(probabilities: Array, wanted: Array, found: Array) -> Array:
    """Distribution alignment: p · wanted / found, normalised; both are shares of the classes [C]."""
    scaled = probabilities * (wanted + 1e-6) / (found + 1e-6)
    return scaled / jnp.sum(scaled, axis=-1, keepdims=True)
