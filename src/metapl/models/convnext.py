"""ConvNeXt-T, S, B and L (Liu et al., 2022): a convolutional network with a transformer's proportions.

    stem (4×4 / 4, norm) → 4 stages, a norm and 2×2 / 2 before each but the first → mean → norm → dropout → dense

A block: 7×7 on each channel alone → norm over the channels → dense to four times the channels → GELU → dense back,
times a learnt number for each channel (LayerScale), plus its input. In training, a block is left out for some examples,
deeper ones more often, as in EfficientNet. Convolutions have biases, norms are layer norms, so there are no running
statistics. The names and the order are timm's. With 1,000 classes: T 28,589,128 parameters, S 50,223,688, B 88,591,464,
L 197,767,336.
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Literal, NamedTuple

import jax.numpy as jnp
from annotated_types import Ge, Gt, Le, Lt
from flax import linen as nn

from metapl.models.depthwise import DepthwiseConv
from metapl.models.layers import (
    DTYPES,
    LayerScale,
    Precision,
    channel_norm,
    conv,
    decide,
    stochastic_depth,
    survivals,
    whole,
)
from metapl.models.remat import maybe_remat
from metapl.models.stacked import chain
from metapl.schema import ConfigError
from metapl.system.sharding import activations
from metapl.types import Array, ModelConfig

EPSILON = 1e-6  # of the norms
SMALLEST = 32  # side of a picture: the last stage sees a pixel of it
truncated_normal = nn.initializers.truncated_normal(0.02)


class ConvNeXtVariant(NamedTuple):
    """The numbers in which ConvNeXts differ."""

    channels: int  # of the first stage; each later stage doubles them
    blocks: tuple[int, int, int, int]  # of each stage


VARIANTS = {
    "t": ConvNeXtVariant(96, (3, 3, 9, 3)),
    "s": ConvNeXtVariant(96, (3, 3, 27, 3)),
    "b": ConvNeXtVariant(128, (3, 3, 27, 3)),
    "l": ConvNeXtVariant(192, (3, 3, 27, 3)),
}


@dataclass(frozen=True)
class ConvNeXt(ModelConfig):
    """A ConvNeXt."""

    name: ClassVar[str] = "convnext"

    variant: Literal["t", "s", "b", "l"] = "t"
    """Which member of the family."""
    channels: Annotated[int, Ge(1)] | None = None
    """Channels of the first stage, each later stage doubles them; empty: the variant's."""
    blocks: tuple[int, ...] = ()
    """Blocks of each of the four stages; empty: the variant's."""
    layer_scale: Annotated[float, Gt(0)] = 1e-6
    """First value of the factor of each channel of a block's output."""
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Share of the features that is dropped before the classifier."""
    survival: Annotated[float, Gt(0), Le(1)] = 0.9
    """Probability that training keeps the last block; it falls linearly from 1 for the first block."""
    precision: Precision = "float32"
    """Type of the activations; weights and logits are always float32."""
    remat: bool = False
    """Compute each block's activations twice instead of keeping them: less memory, about a third more work."""
    scan: bool = False
    """Compile the equal blocks of a stage once, as a loop: large networks compile in a fraction of the time. Not for
    CPUs, where the gradients of convolutions are slow in loops (docs/speed.md)."""

    def check(self) -> None:
        """Check that there are four stages with blocks."""
        if self.blocks and (len(self.blocks) != 4 or min(self.blocks) < 1):
            raise ValueError(f"blocks takes four numbers of at least 1, got {self.blocks!r}")

    @property
    def resolved(self) -> ConvNeXtVariant:
        """The variant, with what the settings change of it."""
        channels, blocks = VARIANTS[self.variant]
        first, second, third, fourth = self.blocks or blocks
        return ConvNeXtVariant(self.channels or channels, (first, second, third, fourth))


class ConvNeXtBlock(nn.Module):
    """[N, H, W, C] → the same."""

    config: ConvNeXt

    @nn.compact
    def __call__(self, x: Array, train: bool, survival: Array | float) -> Array:
        c, channels, dtype = self.config, x.shape[-1], DTYPES[self.config.precision]
        dense = partial(nn.Dense, dtype=dtype, kernel_init=truncated_normal, promote_dtype=whole)
        y = DepthwiseConv(7, 1, 3, dtype, truncated_normal, use_bias=True, name="depthwise_conv")(x)
        y = channel_norm(EPSILON, dtype, "norm")(y)
        y = nn.gelu(dense(4 * channels, name="expand")(y), approximate=False)
        y = activations(dense(channels, name="project")(y))
        y = LayerScale(c.layer_scale, name="layer_scale")(y)
        if train and c.survival < 1:
            y = stochastic_depth(y, survival, self.make_rng("dropout"))
        return x + y


class ConvNeXtModule(nn.Module):
    """[N, H, W, 3] → logits [N, classes]."""

    config: ConvNeXt
    classes: int

    @nn.compact
    def __call__(self, x: Array, *, train: bool) -> Array:
        c, dtype = self.config, DTYPES[self.config.precision]
        channels, blocks = c.resolved
        if min(x.shape[1:3]) < SMALLEST:
            raise ConfigError(
                f"a convnext takes pictures of at least {SMALLEST}×{SMALLEST} pixels, got {x.shape[1]}×{x.shape[2]}"
            )
        block = partial(maybe_remat(ConvNeXtBlock, c.remat), c)
        strided = partial(conv, padding="VALID", dtype=dtype, kernel_init=truncated_normal, use_bias=True)
        survival = iter(survivals(c.survival, sum(blocks)))

        x = strided(channels, 4, 4, name="stem_conv")(x)
        x = channel_norm(EPSILON, dtype, "stem_norm")(x)
        for stage, count in enumerate(blocks):
            if stage:
                x = channel_norm(EPSILON, dtype, f"stage{stage}_shrink_norm")(x)
                x = strided(channels * 2**stage, 2, 2, name=f"stage{stage}_shrink_conv")(x)
            first, *rest = (f"stage{stage}_block{i}" for i in range(count))
            x = block(name=first)(x, train, next(survival))
            x = chain(block, rest, x, train, scan=c.scan, settings=[next(survival) for _ in rest])
        x = channel_norm(EPSILON, jnp.dtype("float32"), "head_norm")(x.astype(jnp.float32).mean((1, 2)))
        return decide(x, self.classes, dropout=c.dropout, train=train, kernel_init=truncated_normal)


def build(config: ConvNeXt, classes: int) -> nn.Module:
    """Make the linen module from its settings."""
    return ConvNeXtModule(config, classes)
