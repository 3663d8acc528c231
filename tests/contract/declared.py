"""What tests need to run any method: views with all that it declares, and settings that are small enough."""

import dataclasses

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


SIZES = {"queue": 64, "hidden": 16, "width": 8}  # of methods whose own are those of large networks


def small(kind: type[MethodConfig], **settings: object) -> MethodConfig:
    """A method with its defaults, but for sizes."""
    fields = {field.name for field in dataclasses.fields(kind)}
    return kind(**{name: size for name, size in SIZES.items() if name in fields} | settings)
