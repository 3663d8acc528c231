"""A keyed bijection of {0, …, n−1}, evaluated only where it is asked for.

A Feistel network over Z_a × Z_b, with a·b just above n: each round adds to one half a hash of the other, which can be
undone whatever the hash is. The few results beyond n are sent through again until they fall inside ("cycle walking"),
which keeps it a bijection. Sorting n random keys at every step would cost far more than the step.
Below n of about 10 some orders come more often than others (at n = 6 from a seventh to four times as often as they
should); where each example stands is even for every n.
"""

import math

import jax
import jax.numpy as jnp

from metapl.types import Array

ROUNDS = 6  # four are the theory's minimum (Luby and Rackoff, 1988); small n gain from two more


def shuffled(words: Array, epochs: Array, positions: Array, total: int) -> Array:
    """Where the order of each epoch puts each position: `words` [ROUNDS] uint32 are the key."""
    rows = math.isqrt(total - 1) + 1  # a = ⌈√n⌉
    columns = -(-total // rows)  # b = ⌈n / a⌉
    round_keys = [_mix(word ^ _mix(epochs)) for word in words]

    def once(index: Array) -> Array:
        row, column = index // jnp.uint32(columns), index % jnp.uint32(columns)
        for i, round_key in enumerate(round_keys):
            if i % 2:
                column = (column + _mix(row ^ round_key) % jnp.uint32(columns)) % jnp.uint32(columns)
            else:
                row = (row + _mix(column ^ round_key) % jnp.uint32(rows)) % jnp.uint32(rows)
        return row * jnp.uint32(columns) + column

    def go_on(carry: tuple[Array, Array]) -> Array:
        return jnp.any(carry[1])

    def walk(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        index, outside = carry
        index = jnp.where(outside, once(index), index)
        return index, index >= total

    # Everything counts as outside at first, so that the rounds are compiled once, inside the loop.
    start = (positions, jnp.ones(positions.shape, bool))
    return jax.lax.while_loop(go_on, walk, start)[0].astype(jnp.int32)


def _mix(x: Array) -> Array:
    """Scatter 32 bits: multiply by odd numbers and fold the high bits down, twice (lowbias32's constants)."""
    x = (x ^ (x >> 16)) * jnp.uint32(0x7FEB352D)
    x = (x ^ (x >> 15)) * jnp.uint32(0x846CA68B)
    return x ^ (x >> 16)
