"""The order of a stream: which example stands in which slot of which step, as a function of (key, step).

Each epoch's order is a keyed bijection of {0, …, n−1} that is computed only where it is needed: a Feistel network over
Z_a × Z_b, with a·b just above n. Each round adds to one half a hash of the other, which can be undone for any hash. The
few results beyond n go through again until they fall inside ("cycle walking"), which keeps it a bijection. Sorting n
random keys at every step would cost far more than the step.
Below n of about 10 some orders come more often than others (at n = 6 from a seventh to four times as often as they
should); the place of each single example is uniform for every n.

One implementation serves the device (jax.numpy) and the host (NumPy): processes that read files need no jax.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

ROUNDS = 6  # four are the theory's minimum (Luby and Rackoff, 1988); small n gain from two more


def _while_loop(go_on: Callable[[Any], Any], body: Callable[[Any], Any], carry: Any) -> Any:
    while go_on(carry):
        carry = body(carry)
    return carry


class Backend(NamedTuple):
    """An array module, and its loop."""

    module: Any  # numpy or jax.numpy
    while_loop: Callable[..., Any]  # (condition, body, carry) -> carry, as jax.lax.while_loop


ON_HOST = Backend(np, _while_loop)


def epoch_indices(backend: Backend, words: Any, step: Any, batch_size: int, total: int) -> Any:
    """Return the indices [batch_size] of one step's examples; `words` [ROUNDS] uint32 are the key, `step` is a uint32.

    An epoch is as many whole batches as fit; the examples that are left over change from epoch to epoch. A batch larger
    than the data holds whole epochs and a part of one more; a batch that is all of the data needs no order.
    """
    xp = backend.module
    if batch_size == total:
        return xp.arange(total)
    slots = xp.arange(batch_size, dtype=xp.uint32)
    if batch_size <= total:
        batches = xp.uint32(total // batch_size)
        epochs = xp.broadcast_to(step // batches, slots.shape)
        positions = step % batches * xp.uint32(batch_size) + slots
    else:
        epochs = step * xp.uint32(-(-batch_size // total)) + slots // xp.uint32(total)
        positions = slots % xp.uint32(total)
    return shuffled(backend, words, epochs, positions, total)


def shuffled(backend: Backend, words: Any, epochs: Any, positions: Any, total: int) -> Any:
    """Return where the order of each epoch puts each position, as uint32."""
    xp = backend.module
    rows = math.isqrt(total - 1) + 1  # a = ⌈√n⌉
    columns = -(-total // rows)  # b = ⌈n / a⌉
    round_keys = [_mix(xp, word ^ _mix(xp, epochs)) for word in words]

    def permute(index: Any) -> Any:
        row, column = index // xp.uint32(columns), index % xp.uint32(columns)
        for i, round_key in enumerate(round_keys):
            if i % 2:
                column = (column + _mix(xp, row ^ round_key) % xp.uint32(columns)) % xp.uint32(columns)
            else:
                row = (row + _mix(xp, column ^ round_key) % xp.uint32(rows)) % xp.uint32(rows)
        return row * xp.uint32(columns) + column

    def any_outside(carry: tuple[Any, Any]) -> Any:
        return xp.any(carry[1])

    def walk(carry: tuple[Any, Any]) -> tuple[Any, Any]:
        index, outside = carry
        index = xp.where(outside, permute(index), index)
        return index, index >= total

    # Everything counts as outside at first, so that the rounds are compiled once, inside the loop.
    return backend.while_loop(any_outside, walk, (positions, xp.ones(positions.shape, bool)))[0]


def _mix(xp: Any, x: Any) -> Any:
    """Scatter 32 bits: multiply by odd numbers and fold the high bits down, twice (lowbias32's constants)."""
    x = (x ^ (x >> 16)) * xp.uint32(0x7FEB352D)
    x = (x ^ (x >> 15)) * xp.uint32(0x846CA68B)
    return x ^ (x >> 16)
