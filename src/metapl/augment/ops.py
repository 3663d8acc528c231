"""The picture operations of AutoAugment, as three families that work on a whole batch at once.

A *lookup* replaces each grey level by another, with a table for each image and channel; a *blend* mixes the image with
a degenerate one; a *warp* takes each pixel from another place. One small function for each operation makes what its
family needs (a table, a degenerate image, a matrix), so that images of one batch can go through different operations in
the same pass.

Pictures are uint8 [B, H, W, C] with C = 1 or 3. All arithmetic on pixels is in whole numbers (parameters are rounded
to 1/65,536), so that it is the same on every device, compiled or not. Against Pillow:

- `invert`, `posterize`, `solarize`, `equalize`, `grey`, `mean_grey` and `smooth` are equal;
- `autocontrast` and `blend` are at most one grey level away: Pillow cuts off a float that may lie just below a whole
  number;
- warps take the nearest pixel, as Pillow does by default and TensorFlow in the paper's code, with Pillow's rounding;
  a pixel may differ where its float64 matrix rounds to another 1/65,536 (none in RandAugment's range on 32×32).
"""

import jax
import jax.numpy as jnp
import numpy as np

from metapl.types import Array

GREY = 128
"""Fills places outside the picture, as in the TensorFlow code of AutoAugment and of the paper; Pillow fills with 0."""

_LEVELS = np.arange(256, dtype=np.int32)
_FRACTION_BITS = 16


# Lookups: tables [B, C, 256] int32, or what broadcasts to it.


def lookup(images: Array, tables: Array) -> Array:
    """Replace each value v of channel c of image i by `tables[i, c, v]`."""
    batch, height, width, channels = images.shape
    values = jnp.moveaxis(images, -1, 1).reshape(batch, channels, height * width).astype(jnp.int32)
    tables = jnp.broadcast_to(tables, (batch, channels, 256)).astype(jnp.uint8)
    replaced = jnp.take_along_axis(tables, values, axis=-1, mode="promise_in_bounds")
    return jnp.moveaxis(replaced.reshape(batch, channels, height, width), 1, -1)


def identity_table() -> Array:
    """Keep every level."""
    return jnp.asarray(_LEVELS)[None, None]


def invert() -> Array:
    """Turn black into white."""
    return 255 - identity_table()


def posterize(bits: Array) -> Array:
    """Keep the highest `bits` [B] bits, 0 to 8."""
    shift = (8 - bits.astype(jnp.int32))[:, None, None]
    return (identity_table() >> shift) << shift


def solarize(threshold: Array) -> Array:
    """Invert the levels from `threshold` [B] upwards, 0 to 256."""
    below = identity_table() < threshold.astype(jnp.int32)[:, None, None]
    return jnp.where(below, identity_table(), invert())


def autocontrast(counts: Array) -> Array:
    """Stretch each channel's levels over 0 to 255; a channel of one level stays. Takes `histograms(images)`."""
    low, high = _darkest(counts), _brightest(counts)
    stretched = _divide(jnp.maximum(identity_table() - low, 0) * 255, jnp.maximum(high - low, 1))
    return jnp.where(high > low, jnp.minimum(stretched, 255), identity_table())


def equalize(counts: Array) -> Array:
    """Make each channel's levels about equally frequent, by Pillow's rule. Takes `histograms(images)`."""
    top = jnp.take_along_axis(counts, _brightest(counts), axis=-1)
    step = (counts.sum(axis=-1, keepdims=True) - top) // 255
    darker = jnp.cumsum(counts, axis=-1) - counts
    table = _divide(darker + step // 2, jnp.maximum(step, 1))
    return jnp.where(step > 0, jnp.minimum(table, 255), identity_table())


def histograms(images: Array) -> Array:
    """Count the pixels of each level: [B, C, 256].

    Computed by scattered additions: under 1 ms for 128×32×32×3 on two CPU cores, where sorting took 34 ms, and a
    product of one-hot halves (16 × 16 levels) 160 ms. Each image is counted separately: in one array for the whole
    batch, devices that share the batch would have to add up their counts.
    """
    channels = images.shape[-1]
    first = 256 * jnp.arange(channels, dtype=jnp.int32)

    def of_one(image: Array) -> Array:
        places = (first + image.astype(jnp.int32)).ravel()
        counts = jnp.zeros(channels * 256, jnp.int32).at[places].add(1, mode="promise_in_bounds")
        return counts.reshape(channels, 256)

    return jax.vmap(of_one)(images)


def _divide(numbers: Array, by: Array | int) -> Array:
    """Divide whole numbers that are not negative; `//` also handles signs, and takes three times as long."""
    return jax.lax.div(*jnp.broadcast_arrays(numbers, jnp.int32(by)))


def _darkest(counts: Array) -> Array:
    return jnp.where(counts > 0, identity_table(), 255).min(axis=-1, keepdims=True)


def _brightest(counts: Array) -> Array:
    return jnp.where(counts > 0, identity_table(), 0).max(axis=-1, keepdims=True)


# Blends: degenerate images [B, H, W, C], or what broadcasts to it.


def blend(degenerate: Array, images: Array, factor: Array) -> Array:
    """Mix `degenerate` (factor 0) and `images` (factor 1), or extrapolate (above 1), and clip to 0 to 255."""
    start = degenerate.astype(jnp.int32)
    way = _fixed(factor)[:, None, None, None] * (images.astype(jnp.int32) - start)
    return jnp.clip(start + (way >> _FRACTION_BITS), 0, 255).astype(jnp.uint8)


def black() -> Array:
    """Brightness blends with black."""
    return jnp.zeros((1, 1, 1, 1), jnp.int32)


def grey(images: Array) -> Array:
    """Color blends with the luminance (ITU-R 601, with Pillow's 16-bit weights); that of a grey picture is itself."""
    if images.shape[-1] == 1:
        return images.astype(jnp.int32)
    weighted = images.astype(jnp.int32) * jnp.asarray([19595, 38470, 7471], jnp.int32)
    return (weighted.sum(axis=-1, keepdims=True) + 0x8000) >> 16


def mean_grey(images: Array) -> Array:
    """Contrast blends with the mean luminance, rounded."""
    pixels = images.shape[1] * images.shape[2]
    total = grey(images).sum(axis=(1, 2, 3), keepdims=True)
    return (2 * total + pixels) // (2 * pixels)


def smooth(images: Array) -> Array:
    """Sharpness blends with a blurred image: weights 1, and 5 for the middle; the outermost pixels stay."""
    values = images.astype(jnp.int32)
    height, width = values.shape[1:3]
    padded = jnp.pad(values, ((0, 0), (1, 1), (1, 1), (0, 0)))
    rows = padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:]
    around = rows[:, :, :-2] + rows[:, :, 1:-1] + rows[:, :, 2:]
    blurred = _divide(2 * (around + 4 * values) + 13, 26)  # the sum over 13, rounded
    y, x = np.arange(height)[:, None, None], np.arange(width)[:, None]
    inside = (y > 0) & (y < height - 1) & (x > 0) & (x < width - 1)
    return jnp.where(inside, blurred, values)


# Warps: matrices [B, 2, 3] int32 in 1/65,536, from the place of a pixel to the place that it is taken from.


def warp(images: Array, matrices: Array) -> Array:
    """Take each pixel from the place that its image's matrix gives, rounded; outside the picture it is `GREY`."""
    batch, height, width, channels = images.shape
    y, x = jnp.mgrid[:height, :width].astype(jnp.int32).reshape(2, -1)
    to_x, to_y, shift = jnp.moveaxis(matrices[..., None], 2, 0)  # each [B, 2, 1]
    source = (to_x * x + to_y * y + shift) >> _FRACTION_BITS  # [B, 2, H W]
    source_x, source_y = source[:, 0], source[:, 1]
    inside = (source_x >= 0) & (source_x < width) & (source_y >= 0) & (source_y < height)
    index = jnp.where(inside, source_y * width + source_x, 0)[..., None]
    flat = images.reshape(batch, height * width, channels)
    pixels = jnp.take_along_axis(flat, index, axis=1, mode="promise_in_bounds")
    return jnp.where(inside[..., None], pixels, jnp.uint8(GREY)).reshape(images.shape)


def matrix(a: Array, b: Array, c: Array, d: Array, e: Array, f: Array) -> Array:
    """Make the matrix that takes the pixel at (x, y) from (a x + b y + c, d x + e y + f); pixels are squares of side 1.

    Each argument is [B] or a scalar. The centre of the first pixel is (½, ½); the last column corrects for it.
    """
    rows = [jnp.stack(jnp.broadcast_arrays(p, q, r + (p + q) / 2), -1) for p, q, r in ((a, b, c), (d, e, f))]
    return _fixed(jnp.stack(rows, -2))


def shear_x(slope: Array) -> Array:
    """Shift each row by `slope` [B] times its height."""
    one, zero = jnp.ones_like(slope), jnp.zeros_like(slope)
    return matrix(one, slope, zero, zero, one, zero)


def shear_y(slope: Array) -> Array:
    """Shift each column by `slope` [B] times its place."""
    one, zero = jnp.ones_like(slope), jnp.zeros_like(slope)
    return matrix(one, zero, zero, slope, one, zero)


def translate(right: Array, down: Array) -> Array:
    """Take each pixel from so many pixels [B] to the right and below."""
    one, zero = jnp.ones_like(right), jnp.zeros_like(right)
    return matrix(one, zero, right, zero, one, down)


def rotate(degrees: Array, height: int, width: int) -> Array:
    """Rotate by `degrees` [B] counter-clockwise about the middle."""
    cos, sin = jnp.cos(jnp.deg2rad(degrees)), jnp.sin(jnp.deg2rad(degrees))
    x, y = width / 2, height / 2
    return matrix(cos, -sin, x - cos * x + sin * y, sin, cos, y - sin * x - cos * y)


def flip_and_shift(flipped: Array, right: Array, down: Array, width: int) -> Array:
    """Mirror if `flipped` [B], then take each pixel from `right` and `down` whole pixels away."""
    one, zero = jnp.ones_like(right), jnp.zeros_like(right)
    sign = jnp.where(flipped, -one, one)
    return matrix(sign, zero, jnp.where(flipped, width + right, right), zero, one, down)


def _fixed(number: Array) -> Array:
    return jnp.round(number * (1 << _FRACTION_BITS)).astype(jnp.int32)


# Cutout is not drawn like the other operations: every image gets one.


def cutout(images: Array, size: Array | int, key: Array) -> Array:
    """Grey out a square of `size` pixels, or [B, 1], whose middle is anywhere in the image; it may extend beyond it."""
    batch, height, width, _ = images.shape
    key_y, key_x = jax.random.split(key)
    top = jax.random.randint(key_y, (batch, 1), 0, height) - size // 2
    left = jax.random.randint(key_x, (batch, 1), 0, width) - size // 2
    rows, columns = (
        (first <= np.arange(side, dtype=np.int32)) & (np.arange(side, dtype=np.int32) < first + size)
        for first, side in ((top, height), (left, width))
    )
    return jnp.where((rows[:, :, None] & columns[:, None, :])[..., None], jnp.uint8(GREY), images)
