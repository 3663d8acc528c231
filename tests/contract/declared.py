"""What tests need to run any method: views with all that it declares, and settings that are small enough."""

import dataclasses

import jax
import jax.numpy as jnp

from metapl.augment.views import counts
from metapl.types import Array, Indices, MethodConfig, Totals, Views


def with_declared(views: Views, method: MethodConfig) -> Views:
    def further(of: Array, count: int) -> tuple[Array, ...]:
        return tuple(of + 0.1 * jax.random.normal(jax.random.key(i), of.shape) for i in range(1, count))

    number = counts(method)
    views = views._replace(more_weak=further(views.weak, number.weak), more_strong=further(views.strong, number.strong))
    if not method.remembers_examples:
        return views
    sizes = len(views.labeled), len(views.weak)
    return views._replace(indices=Indices(*(jnp.arange(size) for size in sizes), Totals(*sizes)))


# Of methods whose own are those of large networks and data.
SIZES = {
    "queue": 64,
    "hidden": 16,
    "width": 8,
    "views": 2,
    "clusters": (3, 2),
    "cluster_every_steps": 20,
    "warmup_steps": 0,
    "iterations": 3,
    "negatives": 16,
    "enlarge": True,
}


def small(kind: type[MethodConfig], **settings: object) -> MethodConfig:
    """A method with its defaults, but for sizes."""
    fields = {field.name for field in dataclasses.fields(kind)}
    return kind(**{name: size for name, size in SIZES.items() if name in fields} | settings)
