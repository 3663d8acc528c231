"""Crops and mirror images for the weak and the eval view; uint8 in, uint8 out."""

import jax
import jax.numpy as jnp
import numpy as np

from metapl.augment import ops
from metapl.types import Array

AREA = (0.08, 1.0)
RATIO = (3 / 4, 4 / 3)


def flip_and_shift(images: Array, key: Array, flip: bool, pixels: int) -> Array:
    """Mirror half of the images, then shift each by up to `pixels` in each direction: pad with grey and crop.

    Both are done in one warp by whole pixels.
    """
    flip_key, shift_key = jax.random.split(key)
    batch, _, width, _ = images.shape
    right, down = jax.random.randint(shift_key, (2, batch), -pixels, pixels + 1).astype(jnp.float32)
    flipped = _coin(flip_key, batch, flip)
    return ops.warp(images, ops.flip_and_shift(flipped, right, down, width))


def random_resized(images: Array, key: Array, flip: bool, size: int) -> Array:
    """Resize a random part of each image to `size` × `size`, and mirror half of them.

    The part has 8 to 100 % of the area and sides of 3:4 to 4:3. A part that would not fit is cut to the image, not
    drawn again. Interpolation is linear; shrinking averages.
    """
    flip_key, box_key = jax.random.split(key)
    batch, height, width, channels = images.shape
    images = jnp.where(_coin(flip_key, batch, flip)[:, None, None, None], images[:, :, ::-1], images)
    start, extent = random_box(box_key, batch, height, width)

    def resize(image: Array, start: Array, extent: Array) -> Array:
        scale = size / extent
        shape = (size, size, channels)
        return jax.image.scale_and_translate(image, shape, (0, 1), scale, -start * scale, "linear")

    return _to_uint8(jax.vmap(resize)(images.astype(jnp.float32), start, extent))


def random_box(key: Array, batch: int, height: int, width: int) -> tuple[Array, Array]:
    """Draw a box in each image: its top left corner and its sides, both [B, 2] in pixels, as (y, x)."""
    area_key, ratio_key, place_key = jax.random.split(key, 3)
    area = jax.random.uniform(area_key, (batch,), minval=AREA[0], maxval=AREA[1]) * (height * width)
    log_ratio = jax.random.uniform(ratio_key, (batch,), minval=np.log(RATIO[0]), maxval=np.log(RATIO[1]))
    root = jnp.exp(log_ratio / 2)
    sides = jnp.asarray([height, width], jnp.float32)
    extent = jnp.minimum(jnp.sqrt(area)[:, None] * jnp.stack([1 / root, root], -1), sides)
    return jax.random.uniform(place_key, (batch, 2)) * (sides - extent), extent


def centre(images: Array, size: int, part: float) -> Array:
    """Resize the middle square, of `part` of the shorter side, to `size` × `size`."""
    batch, height, width, channels = images.shape
    side = max(1, int(part * min(height, width)))
    top, left = (height - side) // 2, (width - side) // 2
    # Not images[:, …]: if the size of the batch is symbolic, as in an export, that becomes a gather.
    rows = jax.lax.slice_in_dim(images, top, top + side, axis=1)
    middle = jax.lax.slice_in_dim(rows, left, left + side, axis=2)
    if side == size:
        return middle
    return _to_uint8(jax.image.resize(middle.astype(jnp.float32), (batch, size, size, channels), "linear"))


def _coin(key: Array, batch: int, flip: bool) -> Array:
    return jax.random.bernoulli(key, 0.5 if flip else 0.0, (batch,))


def _to_uint8(values: Array) -> Array:
    return jnp.clip(jnp.round(values), 0, 255).astype(jnp.uint8)
