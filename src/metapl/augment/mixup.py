"""Mixup (Zhang et al., 2018): train on weighted means of two examples, and of their labels."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from metapl.types import Array


class Mixture(NamedTuple):
    """Which examples are mixed, and the share of each example that stays."""

    part: Array  # [B]
    order: Array  # [B]

    def mix(self, values: Array) -> Array:
        """Mix floats [B, ...]: inputs after normalisation, or one-hot targets."""
        own = self.part.reshape(-1, *[1] * (values.ndim - 1)).astype(values.dtype)
        return own * values + (1 - own) * jnp.take(values, self.order, axis=0)


def draw(key: Array, size: int, alpha: float, dtype: jnp.dtype) -> Mixture:
    """Draw a share λ ~ Beta(α, α) for each example, and a random order of the batch that gives its partner."""
    part_key, order_key = jax.random.split(key)
    part = jax.random.beta(part_key, alpha, alpha, (size,), dtype)
    return Mixture(part, jax.random.permutation(order_key, size))
