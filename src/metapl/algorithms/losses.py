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


def cross_entropy(targets: Array, logits: Array) -> Array:
    """CE(q, softmax(logits)): `targets` are labels [B] or distributions [B, C]."""
    return jnp.mean(cross_entropies(targets, logits))


def cross_entropies(targets: Array, logits: Array) -> Array:
    """One cross-entropy for each example: [B]."""
    if targets.ndim == logits.ndim:
        return optax.softmax_cross_entropy(logits, targets)
    return optax.softmax_cross_entropy_with_integer_labels(logits, targets)


def consistency(weak_logits: Array, strong_logits: Array, temperature: float) -> Array:
    """UDA: CE(StopGradient(softmax(weak / temperature)), softmax(strong))."""
    targets = jax.lax.stop_gradient(jax.nn.softmax(weak_logits / temperature))
    return cross_entropy(targets, strong_logits)


def accuracy(labels: Array, logits: Array) -> Array:
    """Share of the batch whose largest logit is the label's."""
    return jnp.mean((jnp.argmax(logits, axis=-1) == labels).astype(logits.dtype))
