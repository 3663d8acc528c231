"""The losses of the paper's Section 2. CE(q, p) is a mean over the batch, as the paper says."""

from dataclasses import dataclass
from typing import Annotated

import jax
import jax.numpy as jnp
import optax
from annotated_types import Ge, Gt

from metapl.types import Array


@dataclass(frozen=True)
class Consistency:
    """The UDA term: the same answer for an example and for a distorted copy of it."""

    weight: Annotated[float, Ge(0)] = 1.0
    """Factor of the term (the paper's UDA factor)."""
    temperature: Annotated[float, Gt(0)] = 1.0
    """The target is softmax(logits / temperature): below 1 it is sharper than the network's answer."""


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


def consistency(weak_logits: Array, strong_logits: Array, temperature: float) -> Array:
    """UDA: CE(StopGradient(softmax(weak / temperature)), softmax(strong))."""
    targets = jax.lax.stop_gradient(jax.nn.softmax(weak_logits / temperature))
    return cross_entropy(targets, strong_logits)


def accuracy(labels: Array, logits: Array) -> Array:
    """Share of the batch whose largest logit is the label's."""
    return jnp.mean((jnp.argmax(logits, axis=-1) == labels).astype(logits.dtype))
