"""CutMix (Yun et al., 2019): a box of each picture shows another picture, and the labels are mixed by area.

    λ ~ Beta(α, α)                      the box has √(1 − λ) of each side, and its middle is anywhere in the picture
    x = x_i outside the box, x_j inside
    y = (1 − a) y_i + a y_j             a: the box's part of the area, after it was cut off at the borders

Each picture has its own λ and its own partner j; the authors draw one λ and one box for a batch.
"""

import jax
import jax.numpy as jnp

from metapl.augment.mixup import Mixture
from metapl.schema import ConfigError
from metapl.types import Array


def cut(key: Array, pictures: Array, alpha: float, chance: float = 1.0) -> tuple[Array, Mixture]:
    """Paste boxes into pictures [B, H, W, C], each with this chance; return them and the mixture of their labels."""
    if pictures.ndim != 4:
        raise ConfigError("cutmix cuts boxes out of pictures, and these examples are not pictures; set cutmix = 0")
    part_key, y_key, x_key, order_key, chance_key = jax.random.split(key, 5)
    batch, height, width, _ = pictures.shape
    part = jax.random.beta(part_key, alpha, alpha, (batch,), pictures.dtype)
    half = jnp.where(jax.random.bernoulli(chance_key, chance, (batch,)), jnp.sqrt(1 - part) / 2, 0)

    def between(key: Array, side: int) -> Array:
        """Which rows or columns the box covers: [B, side]."""
        middle, reach = jax.random.uniform(key, (batch,), pictures.dtype) * side, half * side
        first, last = jnp.round(middle - reach)[:, None], jnp.round(middle + reach)[:, None]
        places = jnp.arange(side, dtype=pictures.dtype)
        return (first <= places) & (places < last)

    inside = between(y_key, height)[:, :, None] & between(x_key, width)[:, None, :]  # [B, H, W]
    order = jax.random.permutation(order_key, batch)
    mixed = jnp.where(inside[..., None], jnp.take(pictures, order, axis=0), pictures)
    return mixed, Mixture(1 - jnp.mean(inside, axis=(1, 2), dtype=pictures.dtype), order)
