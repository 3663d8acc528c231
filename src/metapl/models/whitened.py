"""A small convolutional network for small pictures, whose stem whitens patches: good after minutes on a CPU.

    z   = [Wᵀ p, −Wᵀ p]                                 p: a patch of 3×3 pixels, of every `stride`-th place
    W   = V Λ^(−½)                                      V, Λ: eigenvectors and eigenvalues of the mean of p pᵀ
    h_0 = gelu(z)
    h_i = gelu(norm(conv(gelu(norm(pool(conv(h_(i−1))))))))   i = 1, 2, 3: `width`, 2 `width`, 4 `width` channels
    logits = head(the largest of each channel of h_3)

conv is 3×3, pool takes the largest of 2×2 pixels, and the first stage has no pool. With a whitened
stem that is not trained, small networks learn in few steps (Jordan, 2024, "94% on CIFAR-10 in 3.29 seconds on a single
GPU"). `metapl.features.whitening` learns W from pictures without labels; the optimizer's setting
`frozen_layers = 1` leaves it as it is. A network that nobody gave such a stem starts with a random one, and is much
worse (docs/features.md).

| symbol   | name             |
|----------|------------------|
| [W, −W]  | stem_conv        |
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

import jax.numpy as jnp
from annotated_types import Ge
from flax import linen as nn
from jax import lax

from metapl.models.layers import conv, decide
from metapl.models.norm import BatchNorm
from metapl.types import Array, ModelConfig

SIDE = 3  # of a patch
STAGES = 3


@dataclass(frozen=True)
class Whitened(ModelConfig):
    """A small network with a stem that whitens patches."""

    name: ClassVar[str] = "whitened"

    width: Annotated[int, Ge(1)] = 32
    """Channels of the first stage; each stage has twice those of the one before."""
    stride: Annotated[int, Ge(1)] = 2
    """How far the stem moves from patch to patch: 2 for 32×32 pixels, 1 for smaller pictures."""


class WhitenedModule(nn.Module):
    """[N, H, W, C] → logits [N, classes]."""

    config: Whitened
    classes: int

    @nn.compact
    def __call__(self, x: Array, *, train: bool) -> Array:
        c, layer = self.config, partial(conv, dtype=jnp.dtype("float32"))
        x = nn.gelu(layer(stem_outputs(x.shape[-1]), SIDE, c.stride, name="stem_conv")(x))
        for stage in range(STAGES):
            x = Stage(c.width * 2**stage, pools=stage > 0, name=f"stage{stage + 1}_block0")(x, train)
        return decide(jnp.max(x, (1, 2)), self.classes, dropout=0.0, train=train)


class Stage(nn.Module):
    """[N, H, W, C] → [N, H/2, W/2, features], or of the same size if it does not pool."""

    features: int
    pools: bool

    @nn.compact
    def __call__(self, x: Array, train: bool) -> Array:
        layer = partial(conv, self.features, SIDE, dtype=jnp.dtype("float32"))
        x = layer(name="conv1")(x)
        x = nn.gelu(BatchNorm(name="norm1")(largest_of_four(x) if self.pools else x, train=train))
        return nn.gelu(BatchNorm(name="norm2")(layer(name="conv2")(x), train=train))


def stem_outputs(channels: int) -> int:
    """How many channels the stem makes of so many."""
    return 2 * channels * SIDE**2


def largest_of_four(x: Array) -> Array:
    """[N, H, W, C] → [N, H/2, W/2, C]: the largest of each 2×2 square; a single row or column stays as it is.

    XLA for CPUs computes the gradient of `nn.max_pool` in one thread; those of comparisons in all.
    """
    for axis in (1, 2):
        if pairs := x.shape[axis] // 2:
            even, odd = (lax.slice_in_dim(x, start, 2 * pairs, 2, axis) for start in (0, 1))
            x = jnp.maximum(even, odd)
    return x


def build(config: Whitened, classes: int) -> nn.Module:
    """Make the linen module from its settings."""
    return WhitenedModule(config, classes)
