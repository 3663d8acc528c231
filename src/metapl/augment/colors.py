"""The strong view of contrastive methods: changed colours, blur, and no new shapes (SimCLR, MoCo v2, BYOL).

Each picture, in this order, on uint8, with s the `strength`:

- with chance `chance`: brightness, contrast and saturation by factors from 1 − 0.8 s to 1 + 0.8 s, at least 0 (blends
  with black, with the mean grey, with its own greys), and the hue turned by up to ± 0.2 s of the circle;
- with chance `grey`: all colour is lost;
- with chance `blur`: a Gaussian with σ from 0.1 to 2 pixels at a side of 224, cut off at 5 % of the side;
- with chance `solarize`: levels from 128 up are inverted (BYOL).

SimCLR's s is 1 on ImageNet and 0.5 on CIFAR-10; MoCo v2's and BYOL's settings are about 0.5. The weak view's random
crop comes before it: `weak.crop = "resized"`. SimCLR draws the order of the first four changes; here it is fixed. BYOL
blurs its first view always and its second one rarely; here both have the same chances. Pictures with one channel have
no hue and no saturation.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import jax
import jax.numpy as jnp
from annotated_types import Ge, Le

from metapl.augment import ops
from metapl.augment.strong_view import StrongView
from metapl.types import Array

SIGMA = (0.1 / 224, 2.0 / 224)  # of the blur, as parts of the side
REACH = 0.05  # where it is cut off, likewise


@dataclass(frozen=True)
class Colors(StrongView):
    """Other colours, blur: the strong view of SimCLR, MoCo v2 and BYOL."""

    name: ClassVar[str] = "colors"

    strength: Annotated[float, Ge(0), Le(2)] = 1.0
    """How much brightness, contrast, saturation (± 0.8 of it) and hue (± 0.2 of the circle) change."""
    chance: Annotated[float, Ge(0), Le(1)] = 0.8
    """Chance that these four change at all."""
    grey: Annotated[float, Ge(0), Le(1)] = 0.2
    """Chance that a picture loses its colours."""
    blur: Annotated[float, Ge(0), Le(1)] = 0.5
    """Chance that a picture is blurred. SimCLR does not blur CIFAR-10."""
    solarize: Annotated[float, Ge(0), Le(1)] = 0.0
    """Chance that the bright half of the levels is inverted; BYOL: 0.2 of its second view."""


def distort(config: Colors, images: Array, key: Array) -> Array:
    """Change the colours of each picture of a batch, and blur some."""
    keys = jax.random.split(key, 9)
    batch = len(images)

    def happens(key: Array, chance: float) -> Array:
        return jax.random.bernoulli(key, chance, (batch,))[:, None, None, None]

    def factor(key: Array) -> Array:
        reach = 0.8 * config.strength
        return jax.random.uniform(key, (batch,), minval=max(0.0, 1 - reach), maxval=1 + reach)

    changed = ops.blend(ops.black(), images, factor(keys[0]))
    changed = ops.blend(ops.mean_grey(changed), changed, factor(keys[1]))
    if images.shape[-1] == 3:
        changed = ops.blend(ops.grey(changed), changed, factor(keys[2]))
        turn = 0.2 * config.strength * jax.random.uniform(keys[3], (batch,), minval=-1.0, maxval=1.0)
        changed = turn_hue(changed, turn)
    images = jnp.where(happens(keys[4], config.chance), changed, images)
    images = jnp.where(happens(keys[5], config.grey), ops.grey(images).astype(jnp.uint8), images)
    if config.blur:
        side = min(images.shape[1:3])
        sigma = side * jax.random.uniform(keys[6], (batch,), minval=SIGMA[0], maxval=SIGMA[1])
        images = jnp.where(happens(keys[7], config.blur), blurred(images, sigma), images)
    if config.solarize:
        inverted = ops.lookup(images, ops.solarize(jnp.full((batch,), 128)))
        images = jnp.where(happens(keys[8], config.solarize), inverted, images)
    return images


def turn_hue(images: Array, turn: Array) -> Array:
    """Turn the hue of colour pictures by `turn` [B] of the circle; brightest value and saturation (HSV) stay."""
    red, green, blue = jnp.moveaxis(images.astype(jnp.float32), -1, 0)
    top = jnp.maximum(jnp.maximum(red, green), blue)
    chroma = top - jnp.minimum(jnp.minimum(red, green), blue)
    safe = jnp.where(chroma > 0, chroma, 1.0)
    sixth = jnp.where(
        top == red, (green - blue) / safe, jnp.where(top == green, 2 + (blue - red) / safe, 4 + (red - green) / safe)
    )
    sixth = sixth + 6 * turn[:, None, None]

    def channel(offset: int) -> Array:
        place = (offset + sixth) % 6
        return top - chroma * jnp.clip(jnp.minimum(place, 4 - place), 0, 1)

    return _to_uint8(jnp.stack([channel(5), channel(3), channel(1)], axis=-1))


def blurred(images: Array, sigma: Array) -> Array:
    """Blur with a Gaussian of `sigma` [B] pixels, one axis after the other; the outermost pixels are repeated."""
    reach = max(1, round(REACH * min(images.shape[1:3])))
    offsets = jnp.arange(-reach, reach + 1)
    weights = jnp.exp(-(offsets**2) / (2 * sigma[:, None] ** 2))
    weights = weights / weights.sum(axis=-1, keepdims=True)
    values = images.astype(jnp.float32)
    for axis in (1, 2):
        pads = [(reach, reach) if place == axis else (0, 0) for place in range(4)]
        padded, size = jnp.pad(values, pads, mode="edge"), images.shape[axis]
        values = sum(  # type: ignore[assignment]
            weights[:, i, None, None, None] * jax.lax.slice_in_dim(padded, i, i + size, axis=axis)
            for i in range(2 * reach + 1)
        )
    return _to_uint8(values)


def _to_uint8(values: Array) -> Array:
    return jnp.clip(jnp.round(values), 0, 255).astype(jnp.uint8)
