"""One function of a network, for the networks of several seeds."""

from collections.abc import Callable

import jax

from metapl.types import PyTree


def over_seeds(function: Callable[..., PyTree], shared: int) -> Callable[..., PyTree]:
    """Map over the leading axis of all arguments but the last `shared`.

    A single seed goes without `vmap`, which would turn convolutions into slow grouped ones.
    """

    def mapped(*args: PyTree) -> PyTree:
        own, common = args[: len(args) - shared], args[len(args) - shared :]
        if len(jax.tree.leaves(own)[0]) > 1:
            return jax.vmap(lambda *own: function(*own, *common))(*own)
        result = function(*jax.tree.map(lambda leaf: leaf[0], own), *common)
        return jax.tree.map(lambda leaf: leaf[None], result)

    return mapped
