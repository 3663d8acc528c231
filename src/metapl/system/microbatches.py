"""Split a batch into equal microbatches, which are computed one after another, and join the results.

A microbatch has every k-th example. So it has an equal share of each kind of view where views stand one kind after
another, and an equal share of each device's rows, which are neighbours.
"""

import jax.numpy as jnp
from jax import Array

from metapl.system.sharding import named


def split(examples: Array, count: int, names: tuple[str | None, ...]) -> Array:
    """[N, ...] → [count, N/count, ...]; `names` are the dimensions' names in the table of `sharding.py`."""
    rows = jnp.swapaxes(examples.reshape(-1, count, *examples.shape[1:]), 0, 1)
    return named(rows, None, *names)


def join(microbatches: Array) -> Array:
    """Undo `split`: [count, N/count, ...] → [N, ...]."""
    return jnp.swapaxes(microbatches, 0, 1).reshape(-1, *microbatches.shape[2:])
