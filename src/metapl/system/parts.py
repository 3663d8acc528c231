"""A batch cut into equal parts that are worked on one after another, and put together again.

A part has every k-th example: of views that stand one kind after another it has as much of each, and of the rows that a
device has, which are neighbours, as many as any other part.
"""

import jax.numpy as jnp
from jax import Array

from metapl.system.sharding import named


def cut(examples: Array, parts: int, names: tuple[str | None, ...]) -> Array:
    """[N, ...] → [parts, N/parts, ...]; `names` are what devices know the dimensions by (sharding.py)."""
    rows = jnp.swapaxes(examples.reshape(-1, parts, *examples.shape[1:]), 0, 1)
    return named(rows, None, *names)


def join(parts: Array) -> Array:
    """Undo it: [parts, N/parts, ...] → [N, ...]."""
    return jnp.swapaxes(parts, 0, 1).reshape(-1, *parts.shape[2:])
