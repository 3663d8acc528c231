"""Small pieces that methods without labels share: directions, and how far they spread."""

import jax.numpy as jnp
import optax

from metapl.types import Array


def direction(vectors: Array) -> Array:
    """v / ‖v‖ along the last axis; zero vectors stay zero."""
    return vectors / jnp.maximum(optax.safe_norm(vectors, 1e-12, axis=-1, keepdims=True), 1e-12)


def spread(directions: Array) -> Array:
    """√D times the mean standard deviation of a coordinate: 1 if directions [N, D] go everywhere, 0 if they agree."""
    return jnp.sqrt(directions.shape[-1]) * jnp.mean(jnp.std(directions, axis=0))
