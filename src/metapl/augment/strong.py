"""The kinds of strong views. A new one is one file here and one row in this table.

A view that learns has a row in `LEARNING`, too. Its memory is part of a run's state (train/learned_views.py).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from metapl.augment import autoaugment, colors, ctaugment, randaugment
from metapl.augment.strong_view import StrongView
from metapl.types import Array, PyTree


class Learning(NamedTuple):
    """How a strong view learns from labelled pictures; each function's first argument are its settings."""

    start: Callable[[Any], PyTree]  # () -> its first memory
    distort: Callable[[Any, PyTree, Array, Array], Array]  # (memory, pictures, key) -> distorted ones
    rated_view: Callable[[Any, Array, Array], tuple[Array, PyTree]]  # (pictures, key) -> distorted ones, what was drawn
    learn: Callable[[Any, PyTree, PyTree, Array], PyTree]  # (memory, what was drawn, closeness [B]) -> next memory


LEARNING: dict[type[StrongView], Learning] = {
    ctaugment.CTAugment: Learning(ctaugment.start, ctaugment.distort, ctaugment.rated_view, ctaugment.learn),
}


def untrained(config: StrongView, images: Array, key: Array) -> Array:
    """Distort as a view that learns does before it has learnt anything."""
    its = LEARNING[type(config)]
    return its.distort(config, its.start(config), images, key)


# settings -> distort(settings, pictures, key)
STRONG_VIEWS: dict[type[StrongView], Callable[[Any, Array, Array], Array]] = {
    randaugment.RandAugment: randaugment.distort,
    autoaugment.AutoAugment: autoaugment.distort,
    colors.Colors: colors.distort,
    ctaugment.CTAugment: untrained,
}


def distort(config: StrongView, images: Array, key: Array, memory: PyTree = None) -> Array:
    """Make the strong view of a batch of pictures from the weak one: uint8 in, uint8 out.

    `memory` is that of a view that learns; without it, the view has learnt nothing.
    """
    if memory is None:
        return STRONG_VIEWS[type(config)](config, images, key)
    return LEARNING[type(config)].distort(config, memory, images, key)
