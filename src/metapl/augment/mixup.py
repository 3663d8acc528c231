"""Mixup: train on what lies between two examples, and between their labels."""

import jax
import jax.numpy as jnp

from metapl.types import Array


def mixup(inputs: Array, targets: Array, key: Array, alpha: float) -> tuple[Array, Array]:
    """Mix each example (floats [B, ...], after normalisation) and its target ([B, C], one-hot) with another's.

    The parts are λ and 1 − λ, λ ~ Beta(α, α), drawn for each example; α = 0 mixes nothing. The partner is the example
    at the same place of a random order of the batch, so that every example takes part twice.
    """
    if alpha == 0:
        return inputs, targets
    part_key, order_key = jax.random.split(key)
    part = jax.random.beta(part_key, alpha, alpha, (len(inputs),), inputs.dtype)
    order = jax.random.permutation(order_key, len(inputs))

    def mix(values: Array) -> Array:
        own = part.reshape(-1, *[1] * (values.ndim - 1)).astype(values.dtype)
        return own * values + (1 - own) * jnp.take(values, order, axis=0)

    return mix(inputs), mix(targets)
