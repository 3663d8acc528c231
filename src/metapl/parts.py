"""A batch cut into equal parts that are worked on one after another, and put together again.

A part has every k-th example: of views that stand one kind after another it has as much of each, and of the rows that a
device has, which are neighbours, as many as any other part.
"""

import jax.numpy as jnp
from flax.linen.spmd import with_logical_constraint
from jax import Array


def cut(examples: Array, parts: int, name: str) -> Array:
    """[N, ...] → [parts, N/parts, ...]; `name` is what devices know the examples' dimension by (sharding.py)."""
    rows = jnp.swapaxes(examples.reshape(-1, parts, *examples.shape[1:]), 0, 1)
    width = "width" if name == "batch" and examples.ndim == 4 else None
    rest = (None, width, None) if examples.ndim == 4 else (None,) * (examples.ndim - 1)
    return with_logical_constraint(rows, (None, name, *rest))


def join(parts: Array) -> Array:
    """Undo it: [parts, N/parts, ...] → [N, ...]."""
    return jnp.swapaxes(parts, 0, 1).reshape(-1, *parts.shape[2:])


def fitting(parts: int, examples: int, devices: int) -> int:
    """The most parts, of so many at most, that divide them and leave every device as many examples in each."""
    return max((fewer for fewer in range(1, parts + 1) if examples % (fewer * devices) == 0), default=1)
