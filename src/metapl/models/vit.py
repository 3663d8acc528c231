"""Vision transformers (Dosovitskiy et al., 2021): ViT-Ti, S, B and L, as timm has them; also DeiT and DINOv2.

    patches p×p → dense, plus positions → class token, registers → L blocks → norm → class token → dropout → dense

A block: x + attention(norm(x)), then x + MLP(norm(x)); the MLP has four times the channels and GELU. With `layer_scale`
each block's two terms are multiplied by a learnt number for each channel (DINOv2, DeiT III). `registers` are further
tokens that the classifier does not see (Darcet et al., 2024). Pooling `mean` averages the patches before the norm
instead of reading the class token.

Positions are learnt for pictures of `resolution`². For others they are interpolated (cubic, antialiased, as timm does),
so that any size fits; a side that is not a multiple of p is filled up with zeros, right and below.

With `lora_rank` r > 0 the dense layers of all blocks get adapters (lora.py), and only these and the head learn.

With 1,000 classes, 224² and 16×16: Ti 5,717,416 parameters, S 22,050,664, B 86,567,656, L 304,326,632.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt, Le, Lt
from flax import linen as nn
from jax import lax

from metapl.models.layers import (
    DTYPES,
    LayerScale,
    Precision,
    channel_norm,
    decide,
    stochastic_depth,
    survivals,
    whole,
)
from metapl.models.lora import AdaptedDense, fixed
from metapl.models.remat import maybe_remat
from metapl.models.stacked import chain
from metapl.system.sharding import gathered, tokens
from metapl.types import ADAPTER, Array, ModelConfig

truncated_normal = nn.initializers.truncated_normal(0.02)


class ViTVariant(NamedTuple):
    """The numbers in which ViTs differ."""

    width: int
    depth: int
    heads: int


VARIANTS = {
    "ti": ViTVariant(192, 12, 3),
    "s": ViTVariant(384, 12, 6),
    "b": ViTVariant(768, 12, 12),
    "l": ViTVariant(1024, 24, 16),
}


@dataclass(frozen=True)
class ViT(ModelConfig):
    """A vision transformer."""

    name: ClassVar[str] = "vit"
    convolutions: ClassVar[bool] = False

    variant: Literal["ti", "s", "b", "l"] = "s"
    """Which member of the family."""
    patch: Annotated[int, Ge(1)] = 16
    """Side of a patch in pixels."""
    resolution: Annotated[int, Ge(1)] = 224
    """Side of the pictures that positions are learnt for; they are interpolated for pictures of other sizes."""
    width: Annotated[int, Ge(1)] | None = None
    """Channels; empty: the variant's."""
    depth: Annotated[int, Ge(1)] | None = None
    """Blocks; empty: the variant's."""
    heads: Annotated[int, Ge(1)] | None = None
    """Heads of attention, which must divide the width; empty: the variant's."""
    pooling: Literal["token", "mean"] = "token"
    """What the classifier sees: the class token after the last norm, or the mean of the patches, normalised."""
    class_token: bool = True
    """Whether there is a class token."""
    registers: Annotated[int, Ge(0)] = 0
    """Additional tokens that the classifier does not see (DINOv2 with registers: 4)."""
    position_of_tokens: bool = True
    """Whether the class token and the registers have positions, too (timm: not `no_embed_class`)."""
    layer_scale: Annotated[float, Ge(0)] = 0.0
    """First value of the factor of each channel of a block's terms (DINOv2: 1e-5); 0: no factor."""
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Share of the features that is dropped before the classifier."""
    survival: Annotated[float, Gt(0), Le(1)] = 1.0
    """Probability that training keeps the terms of the last block; it falls linearly from 1 for the first block."""
    norm_epsilon: Annotated[float, Gt(0)] = 1e-6
    """Added to the variance before its root."""
    lora_rank: Annotated[int, Ge(0)] = 0
    """Rank of the blocks' adapters; only these and the classifier learn then. 0: no adapters, all weights learn."""
    lora_alpha: Annotated[float, Gt(0)] = 16.0
    """What an adapter's output is multiplied by, times its rank."""
    precision: Precision = "float32"
    """Type of the activations; weights and logits are always float32."""
    remat: bool = False
    """Compute each block's activations twice instead of keeping them: less memory, about a third more work."""
    scan: bool = False
    """Compile the blocks once, as a loop: large networks compile in a fraction of the time."""

    def check(self) -> None:
        """Check fields against each other."""
        width, _, heads = self.resolved
        if width % heads:
            raise ValueError(f"heads must divide the width, got {heads} and {width}")
        if self.resolution % self.patch:
            raise ValueError(f"resolution must be a multiple of patch, got {self.resolution} and {self.patch}")
        if self.pooling == "token" and not self.class_token:
            raise ValueError("pooling 'token' needs the class_token; set pooling = 'mean' without it")

    @property
    def resolved(self) -> ViTVariant:
        """The variant, with what the settings change of it."""
        width, depth, heads = VARIANTS[self.variant]
        return ViTVariant(self.width or width, self.depth or depth, self.heads or heads)

    @property
    def extra_tokens(self) -> int:
        """How many tokens come before the patches."""
        return int(self.class_token) + self.registers


class PatchEmbedding(nn.Module):
    """[N, H, W, C] → [N, H/p, W/p, width]: a convolution whose kernel and stride are one patch, as a matrix product."""

    patch: int
    width: int
    dtype: jnp.dtype

    @nn.compact
    def __call__(self, x: Array) -> Array:
        p, channels = self.patch, x.shape[-1]
        kernel = self.param("kernel", truncated_normal, (p, p, channels, self.width), jnp.float32)
        bias = self.param("bias", nn.initializers.zeros, (self.width,), jnp.float32)
        sides = [-(-side // p) for side in x.shape[1:3]]
        x = jnp.pad(
            x, ((0, 0), *((0, rows * p - side) for rows, side in zip(sides, x.shape[1:3], strict=True)), (0, 0))
        )
        x = x.reshape(x.shape[0], sides[0], p, sides[1], p, channels).transpose(0, 1, 3, 2, 4, 5)
        x = x.reshape(x.shape[0], *sides, p * p * channels).astype(self.dtype)
        return x @ gathered(kernel.astype(self.dtype)).reshape(-1, self.width) + bias.astype(self.dtype)


class TransformerBlock(nn.Module):
    """[N, T, C] → the same."""

    config: ViT

    @nn.compact
    def __call__(self, x: Array, train: bool, survival: Array | float) -> Array:
        c, dtype = self.config, DTYPES[self.config.precision]

        def dense(x: Array, features: int, name: str) -> Array:
            layer = partial(nn.Dense, features, dtype=dtype, kernel_init=truncated_normal, name=name)
            if not c.lora_rank:
                return layer(promote_dtype=whole)(x)
            adapter = AdaptedDense(features, c.lora_rank, c.lora_alpha, dtype, name=name + ADAPTER)
            return layer(promote_dtype=fixed)(x) + adapter(x)

        def term(y: Array, number: int) -> Array:
            y = LayerScale(c.layer_scale, name=f"layer_scale{number}")(y) if c.layer_scale else y
            if train and c.survival < 1:
                y = stochastic_depth(y, survival, self.make_rng("dropout"))
            return tokens(y)

        y = channel_norm(c.norm_epsilon, dtype, "norm1")(x)
        y = attention(dense(y, 3 * y.shape[-1], "qkv"), c.resolved.heads)
        x = x + term(dense(y, x.shape[-1], "attention_out"), 1)
        y = channel_norm(c.norm_epsilon, dtype, "norm2")(x)
        y = nn.gelu(dense(y, 4 * x.shape[-1], "expand"), approximate=False)
        return x + term(dense(y, x.shape[-1], "project"), 2)


def attention(qkv: Array, heads: int) -> Array:
    """softmax(q kᵀ / √d) v for each head: [N, T, 3 C] → [N, T, C]; the softmax is float32."""
    channels = qkv.shape[-1] // 3
    parts = qkv.reshape(*qkv.shape[:2], 3, heads, channels // heads)
    q, k, v = (lax.index_in_dim(parts, i, axis=2, keepdims=False) for i in range(3))
    scores = jnp.einsum("nqhd,nkhd->nhqk", q, k) / math.sqrt(channels // heads)
    shares = jax.nn.softmax(scores.astype(jnp.float32)).astype(v.dtype)
    return jnp.einsum("nhqk,nkhd->nqhd", shares, v).reshape(*qkv.shape[:2], channels)


class ViTModule(nn.Module):
    """[N, H, W, 3] → logits [N, classes]."""

    config: ViT
    classes: int

    @nn.compact
    def __call__(self, x: Array, *, train: bool) -> Array:
        c, dtype = self.config, DTYPES[self.config.precision]
        width, depth, _ = c.resolved
        x = PatchEmbedding(c.patch, width, dtype, name="stem_conv")(tokens(x))
        x = self.with_tokens(x).astype(dtype)

        block = partial(maybe_remat(TransformerBlock, c.remat), c)
        (first, *rest), survival = [f"stage0_block{i}" for i in range(depth)], survivals(c.survival, depth)
        x = block(name=first)(x, train, survival[0])
        x = chain(block, rest, x, train, scan=c.scan, settings=survival[1:]).astype(jnp.float32)

        norm = channel_norm(c.norm_epsilon, jnp.dtype("float32"), "head_norm")
        if c.pooling == "token":
            x = norm(lax.index_in_dim(x, 0, axis=1, keepdims=False))
        else:
            x = norm(lax.slice_in_dim(x, c.extra_tokens, x.shape[1], axis=1).mean(1))
        return decide(x, self.classes, dropout=c.dropout, train=train, kernel_init=truncated_normal)

    def with_tokens(self, x: Array) -> Array:
        """Add the positions to the patches [N, h, w, C], and put the extra tokens before them: [N, T, C]."""
        c, width = self.config, x.shape[-1]
        own, side = c.extra_tokens if c.position_of_tokens else 0, c.resolution // c.patch
        position = self.param("stem_position", truncated_normal, (1, own + side * side, width), jnp.float32)
        grid = position[:, own:].reshape(1, side, side, width)
        if x.shape[1:3] != (side, side):
            grid = jax.image.resize(grid, (1, *x.shape[1:3], width), "cubic")
        x = (x + grid.astype(x.dtype)).reshape(x.shape[0], -1, width)
        extra = [self.param("stem_token", truncated_normal, (1, 1, width), jnp.float32)] if c.class_token else []
        if c.registers:
            extra.append(self.param("stem_registers", truncated_normal, (1, c.registers, width), jnp.float32))
        if not extra:
            return tokens(x)
        before = jnp.concatenate(extra, 1)
        before = before + position[:, :own] if own else before
        return tokens(
            jnp.concatenate([jnp.broadcast_to(before.astype(x.dtype), (x.shape[0], *before.shape[1:])), x], 1)
        )


def build(config: ViT, classes: int) -> nn.Module:
    """Make the linen module from its settings."""
    return ViTModule(config, classes)
