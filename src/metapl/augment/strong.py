"""The kinds of strong views. A new one is one file here and one row in this table."""

from collections.abc import Callable
from typing import Any

from metapl.augment import autoaugment, colors, randaugment
from metapl.augment.strong_view import StrongView
from metapl.types import Array

# settings -> distort(settings, pictures, key)
STRONG_VIEWS: dict[type[StrongView], Callable[[Any, Array, Array], Array]] = {
    randaugment.RandAugment: randaugment.distort,
    autoaugment.AutoAugment: autoaugment.distort,
    colors.Colors: colors.distort,
}


def distort(config: StrongView, images: Array, key: Array) -> Array:
    """Make the strong view of a batch of pictures from the weak one: uint8 in, uint8 out."""
    return STRONG_VIEWS[type(config)](config, images, key)
