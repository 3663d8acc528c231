"""One forward pass over several views: shared by methods that normalise all of them with common batch statistics."""

import itertools
from collections.abc import Sequence

import jax.numpy as jnp

from metapl.types import Array, Network, PyTree


def together(
    network: Network, params: PyTree, stats: PyTree, shown: Sequence[Array], key: Array
) -> tuple[list[Array], PyTree]:
    """Return the logits of each of the arrays, in training mode, and the statistics after the pass."""
    logits, stats = network.apply(params, stats, jnp.concatenate(shown), train=True, key=key)
    *ends, _ = itertools.accumulate(map(len, shown))
    return jnp.split(logits, ends), stats
