"""EfficientNet-B0 … B7 (Tan & Le, 2019), L2 (Xie et al., 2020) and the paper's B6-Wide.

    stem (3×3 / 2) → 7 stages of MBConv blocks → head (1×1) → mean → dropout → dense

A block: 1×1 to e times the channels → k×k on each channel alone → squeeze-excite → 1×1 back, plus its input if the
shape stays; norms after the convolutions, swish between them. A variant multiplies all channels by its width (to whole
eights) and the blocks of each stage by its depth (up). In training, a block with a shortcut is left out for some
examples ("stochastic depth", Huang et al., 2016); deeper blocks are left out more often. With 1,000 classes: B0
5,288,548 parameters, B6 43,040,704, B7 66,347,960, L2 480,309,308.

B6-Wide is B6's depth (2.6) with width 5.0: 316,649,180 parameters, here and in the released code, whose table has (5.0,
2.6) for it. The paper says 390 million, "the width factor increased from 2.1", where B6's is 1.8. We tried other
readings, in millions: rounding to 16, 32, 64 or 128 channels 317.1, 320.4, 317.4, 339.8; depth 3.1 (B7's) 398.5; width
5.0 · 2.1 / 1.8 428.9; squeeze to a half instead of a quarter 374.8, or of the expanded channels 607.4; a head that is
not widened 303.3; a classifier for JFT's 18,291 classes 427.3. Only one comes close, and nothing in the paper supports
it: B5's depth (2.2) with that classifier, 391.2.

Weights start as in Keras's version, from a truncated normal with variance 2 / (k · k · outputs); the first release had
a plain normal with the same variance.
"""

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt, Le, Lt
from flax import linen as nn

from metapl.models.depthwise import DepthwiseConv
from metapl.models.layers import (
    DTYPES,
    Precision,
    classify,
    conv,
    stochastic_depth,
    survivals,
    whole,
)
from metapl.models.norm import BatchNorm
from metapl.models.remat import kept, maybe_remat
from metapl.models.stacked import chain
from metapl.types import Array, ModelConfig


class EfficientNetVariant(NamedTuple):
    """The settings in which EfficientNets differ."""

    width: float
    depth: float
    resolution: int  # the pictures' height and width that it was made for
    dropout: float


VARIANTS = {
    "b0": EfficientNetVariant(1.0, 1.0, 224, 0.2),
    "b1": EfficientNetVariant(1.0, 1.1, 240, 0.2),
    "b2": EfficientNetVariant(1.1, 1.2, 260, 0.3),
    "b3": EfficientNetVariant(1.2, 1.4, 300, 0.3),
    "b4": EfficientNetVariant(1.4, 1.8, 380, 0.4),
    "b5": EfficientNetVariant(1.6, 2.2, 456, 0.4),
    "b6": EfficientNetVariant(1.8, 2.6, 528, 0.5),
    "b7": EfficientNetVariant(2.0, 3.1, 600, 0.5),
    "l2": EfficientNetVariant(4.3, 5.3, 475, 0.5),  # the paper trains it at 512, which 16 cores can share
    "b6_wide": EfficientNetVariant(5.0, 2.6, 512, 0.5),
}


class StagePlan(NamedTuple):
    """Equal blocks, before a variant multiplies them; the first one has the stride."""

    blocks: int
    size: int  # of the depthwise kernel
    stride: int
    expand: int
    features: int


STAGES = (
    StagePlan(1, 3, 1, 1, 16),
    StagePlan(2, 3, 2, 6, 24),
    StagePlan(2, 5, 2, 6, 40),
    StagePlan(3, 3, 2, 6, 80),
    StagePlan(3, 5, 1, 6, 112),
    StagePlan(4, 5, 2, 6, 192),
    StagePlan(1, 3, 1, 6, 320),
)
STEM, HEAD = 32, 1280  # channels, before a variant multiplies them


@dataclass(frozen=True)
class EfficientNetFamily(ModelConfig):
    """Settings of EfficientNet and EfficientNet-Lite; the variant gives the values of fields that are left empty."""

    variants: ClassVar[Mapping[str, EfficientNetVariant]]
    lite: ClassVar[bool] = False  # see efficientnet_lite.py for what this changes

    variant: str = ""
    """Which member of the family."""
    width: Annotated[float, Gt(0)] | None = None
    """Multiplies all channels; empty: the variant's."""
    depth: Annotated[float, Gt(0)] | None = None
    """Multiplies the blocks of each stage; empty: the variant's."""
    stem: Literal["imagenet", "cifar"] = "imagenet"
    """First layers: cifar leaves out the first three halvings of the picture, as the released code does for 32×32."""
    dropout: Annotated[float, Ge(0), Lt(1)] | None = None
    """Share of the features that is dropped before the classifier; empty: the variant's."""
    survival: Annotated[float, Gt(0), Le(1)] = 0.8
    """Probability that training keeps the last block; it falls linearly from 1 for the first block."""
    padding: Literal["same", "symmetric"] = "same"
    """Zeros at the border: TensorFlow's way (timm's `tf_efficientnet_*`), or PyTorch's (timm's `efficientnet_*`)."""
    norm_decay: Annotated[float, Ge(0), Lt(1)] = 0.99
    """Share of the running batch-norm statistics that a step keeps."""
    norm_epsilon: Annotated[float, Gt(0)] = 1e-3
    """Added to the variance before its root; timm's `efficientnet_*` have 1e-5."""
    precision: Precision = "float32"
    """Type of the activations; weights, statistics and logits are always float32."""
    remat: bool = False
    """Compute each block's activations twice instead of keeping them: less memory, about a third more work."""
    scan: bool = False
    """Compile the equal blocks of a stage once, as a loop: large networks compile in a fraction of the time. Not for
    CPUs, where the gradients of convolutions are slow in loops (docs/speed.md)."""

    @property
    def resolution(self) -> int:
        """Height and width of the pictures that the variant was made for."""
        return self.variants[self.variant].resolution

    @property
    def activation(self) -> Callable[[Array], Array]:
        """The function between convolutions."""
        return nn.relu6 if self.lite else nn.swish


@dataclass(frozen=True)
class EfficientNet(EfficientNetFamily):
    """An EfficientNet."""

    name: ClassVar[str] = "efficientnet"
    variants: ClassVar[Mapping[str, EfficientNetVariant]] = VARIANTS

    variant: Literal["b0", "b1", "b2", "b3", "b4", "b5", "b6", "b7", "l2", "b6_wide"] = "b0"
    """Which member of the family."""


def resolved(config: EfficientNetFamily) -> EfficientNetVariant:
    """Take from the variant what the settings leave empty."""
    usual = config.variants[config.variant]
    return EfficientNetVariant(
        usual.width if config.width is None else config.width,
        usual.depth if config.depth is None else config.depth,
        usual.resolution,
        usual.dropout if config.dropout is None else config.dropout,
    )


def widen(features: int, width: float) -> int:
    """Multiply channels and round to eights, but never down by more than a tenth."""
    wanted = features * width
    rounded = max(8, int(wanted + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * wanted else rounded


class BlockPlan(NamedTuple):
    """One block, after the variant's multiplications."""

    stage: int
    name: str
    features: int
    size: int
    stride: int
    expand: int
    survival: float


def stage_blocks(config: EfficientNetFamily) -> list[int]:
    """How many blocks each stage has; a Lite's first and last stage are never deepened."""
    depth = resolved(config).depth
    fixed = (STAGES[0], STAGES[-1]) if config.lite else ()
    return [stage.blocks if stage in fixed else math.ceil(stage.blocks * depth) for stage in STAGES]


def plan_blocks(config: EfficientNetFamily) -> list[BlockPlan]:
    """List all blocks."""
    variant, repeats = resolved(config), stage_blocks(config)
    survival = survivals(config.survival, sum(repeats))
    kept_strides = (1, 2) if config.stem == "cifar" else ()  # with the stem's, the three halvings of large pictures
    plans: list[BlockPlan] = []
    for number, (stage, count) in enumerate(zip(STAGES, repeats, strict=True)):
        for i in range(count):
            stride = stage.stride if i == 0 and number not in kept_strides else 1
            features = widen(stage.features, variant.width)
            name = f"stage{number}_block{i}"
            plans.append(BlockPlan(number, name, features, stage.size, stride, stage.expand, survival[len(plans)]))
    return plans


truncated_normal = nn.initializers.variance_scaling(2.0, "fan_out", "truncated_normal")
# A depthwise kernel [k, k, 1, C] has one output for each of its inputs: its fan-out is k · k, which is what
# the initializer calls fan-in.
depthwise_normal = nn.initializers.variance_scaling(2.0, "fan_in", "truncated_normal")


def dense_uniform(key: Array, shape: tuple[int, ...], dtype: jnp.dtype) -> Array:
    """Draw the classifier's kernel [features, classes] between ±1/√classes."""
    reach = 1 / math.sqrt(shape[-1])
    return jax.random.uniform(key, shape, dtype, -reach, reach)


class SqueezeExcite(nn.Module):
    """[N, H, W, C] → the same; each channel times a number in (0, 1) that the picture's means decide."""

    squeezed: int
    dtype: jnp.dtype

    @nn.compact
    def __call__(self, x: Array) -> Array:
        layer = partial(nn.Conv, kernel_size=(1, 1), dtype=self.dtype, kernel_init=truncated_normal)
        dense = partial(layer, promote_dtype=whole)
        y = nn.swish(dense(self.squeezed, name="reduce")(kept(x.mean((1, 2), keepdims=True))))
        return x * nn.sigmoid(dense(x.shape[-1], name="expand")(y))


class MBConv(nn.Module):
    """A block: [N, H, W, C] → [N, H/stride, W/stride, features]."""

    config: EfficientNetFamily
    plan: BlockPlan

    @nn.compact
    def __call__(self, x: Array, train: bool, survival: Array | float) -> Array:
        plan, inputs, expanded = self.plan, x.shape[-1], x.shape[-1] * self.plan.expand
        layer = partial(conv, dtype=DTYPES[self.config.precision], kernel_init=truncated_normal)
        norm = partial(BatchNorm, self.config.norm_decay, self.config.norm_epsilon)
        activation = self.config.activation

        y = x
        if plan.expand != 1:
            y = layer(expanded, 1, name="expand_conv")(y)
            y = activation(norm(name="expand_norm")(y, train=train))
        y = DepthwiseConv(
            plan.size,
            plan.stride,
            _padding(self.config, plan.size),
            DTYPES[self.config.precision],
            depthwise_normal,
            name="depthwise_conv",
        )(y)
        y = activation(norm(name="depthwise_norm")(y, train=train))
        if not self.config.lite:
            y = SqueezeExcite(max(1, inputs // 4), DTYPES[self.config.precision], name="squeeze")(y)
        y = layer(plan.features, 1, name="project_conv")(y)
        y = y if plan.expand == 1 else kept(y)  # the expanded channels, which are not kept, are several times as many
        y = norm(name="project_norm")(y, train=train)
        if plan.stride != 1 or inputs != plan.features:
            return y
        if train and self.config.survival < 1:
            y = stochastic_depth(y, survival, self.make_rng("dropout"))
        return x + y


class EfficientNetModule(nn.Module):
    """[N, H, W, 3] → logits [N, classes]."""

    config: EfficientNetFamily
    classes: int

    @nn.compact
    def __call__(self, x: Array, *, train: bool) -> Array:
        c, variant = self.config, resolved(self.config)
        layer = partial(conv, dtype=DTYPES[c.precision], kernel_init=truncated_normal)
        norm = partial(BatchNorm, c.norm_decay, c.norm_epsilon)
        block = maybe_remat(MBConv, c.remat)
        ends_width = 1.0 if c.lite else variant.width  # of the stem and of the head

        stride = 1 if c.stem == "cifar" else 2
        x = layer(widen(STEM, ends_width), 3, stride, padding=_padding(c, 3), name="stem_conv")(x)
        x = c.activation(norm(name="stem_norm")(x, train=train))
        for _, plans in itertools.groupby(plan_blocks(c), lambda plan: plan.stage):
            first, *rest = plans
            x = block(c, first, name=first.name)(x, train, first.survival)
            if rest:
                names, survivals = [plan.name for plan in rest], [plan.survival for plan in rest]
                x = chain(partial(block, c, rest[0]), names, x, train, scan=c.scan, settings=survivals)
        x = layer(widen(HEAD, ends_width), 1, name="head_conv")(x)
        x = c.activation(norm(name="head_norm")(x, train=train))
        return classify(x, self.classes, dropout=variant.dropout, train=train, kernel_init=dense_uniform)


def _padding(config: EfficientNetFamily, size: int) -> str | int:
    return "SAME" if config.padding == "same" else size // 2


def build(config: EfficientNetFamily, classes: int) -> nn.Module:
    """Make the linen module from its settings."""
    return EfficientNetModule(config, classes)
