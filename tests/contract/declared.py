"""Add to views what a method declares beyond the usual: further views, and indices."""

import jax
import jax.numpy as jnp

from metapl.types import Array, Indices, MethodConfig, Totals, Views


def with_declared(views: Views, kind: type[MethodConfig]) -> Views:
    def further(of: Array, count: int) -> tuple[Array, ...]:
        return tuple(of + 0.1 * jax.random.normal(jax.random.key(i), of.shape) for i in range(1, count))

    views = views._replace(
        more_weak=further(views.weak, kind.weak_views), more_strong=further(views.strong, kind.strong_views)
    )
    if not kind.needs_indices:
        return views
    sizes = len(views.labeled), len(views.weak)
    return views._replace(indices=Indices(*(jnp.arange(size) for size in sizes), Totals(*sizes)))
