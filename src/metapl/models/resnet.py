"""ResNet-18 and ResNet-50 (He et al., 2016), the paper's network for ImageNet-10 %.

    stem (7×7 / 2, norm, ReLU, max-pool 3×3 / 2) → 4 stages of 64, 128, 256, 512 channels → mean → dropout → dense

ResNet-18's blocks are two 3×3 convolutions; ResNet-50's are 1×1, 3×3 and 1×1 to four times the channels. A stage halves
the picture with the stride of its first 3×3 convolution ("v1.5"; the first paper had it on the 1×1 before). Both sides
are padded equally with zeros, as in PyTorch, so that timm's weights give the same predictions here.
ResNet-50 with 1,000 classes has 25,557,032 parameters.

DropBlock, if asked for, follows every convolution and the shortcut in the last two stages, with a quarter of the rate
in the third one, as in its authors' code.
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Gt, Lt
from flax import linen as nn

from metapl.models.dropblock import DropBlock
from metapl.models.layers import DTYPES, Precision, classify, conv, max_pool
from metapl.models.norm import BatchNorm
from metapl.models.remat import maybe_remat
from metapl.models.stacked import chain
from metapl.types import Array, ModelConfig

BLOCKS = {18: (2, 2, 2, 2), 50: (3, 4, 6, 3)}  # in each stage


@dataclass(frozen=True)
class ResNet(ModelConfig):
    """A ResNet for large pictures, or for small ones with the stem `cifar`."""

    name: ClassVar[str] = "resnet"

    depth: Literal[18, 50] = 50
    """Layers with weights."""
    channels: Annotated[int, Ge(1)] = 64
    """Channels of the stem and the first stage; each later stage doubles them."""
    stem: Literal["imagenet", "cifar"] = "imagenet"
    """First layers: imagenet reduces pictures to a quarter of their side; cifar is one 3×3 convolution at full size."""
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Share of the features that is dropped before the classifier."""
    dropblock: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Share of the last stage's activations that DropBlock drops; a quarter of it in the stage before. 0: none."""
    dropblock_size: Annotated[int, Ge(1)] = 7
    """Side of the squares that DropBlock drops."""
    hidden_layer: Annotated[int, Ge(0)] = 0
    """Units of a layer between the features and the classifier, with batch norm and ReLU; 0: none. SimCLR v2 finetunes
    such a network: the layer is the first of its projection head."""
    zero_init: bool = True
    """Each block starts as its shortcut alone: the scale of its last norm begins at 0 (Goyal et al., 2017)."""
    norm_decay: Annotated[float, Ge(0), Lt(1)] = 0.99
    """Share of the running batch-norm statistics that a step keeps."""
    norm_epsilon: Annotated[float, Gt(0)] = 1e-5
    """Added to the variance before its root."""
    precision: Precision = "float32"
    """Type of the activations; weights, statistics and logits are always float32."""
    remat: bool = False
    """Compute each block's activations twice instead of keeping them: less memory, about a third more work."""
    scan: bool = False
    """Compile the equal blocks of a stage once, as a loop: large networks compile in a fraction of the time. Not for
    CPUs, where the gradients of convolutions are slow in loops (docs/speed.md)."""


class ResidualBlock(nn.Module):
    """[N, H, W, C] → [N, H/stride, W/stride, features], or four times the features at depth 50."""

    config: ResNet
    features: int
    stride: int
    dropblock: float = 0.0

    @nn.compact
    def __call__(self, x: Array, train: bool) -> Array:
        c = self.config

        def drop(x: Array, name: str) -> Array:
            return DropBlock(self.dropblock, c.dropblock_size, name=name)(x, train=train) if self.dropblock else x

        if c.depth == 18:  # (features, size, stride) of each convolution
            layers = [(self.features, 3, self.stride), (self.features, 3, 1)]
        else:
            layers = [(self.features, 1, 1), (self.features, 3, self.stride), (4 * self.features, 1, 1)]
        out = layers[-1][0]

        y = x
        for i, (features, size, stride) in enumerate(layers, start=1):
            last = i == len(layers)
            y = conv(features, size, stride, padding=size // 2, dtype=DTYPES[c.precision], name=f"conv{i}")(y)
            scale_init = nn.initializers.zeros if last and c.zero_init else nn.initializers.ones
            y = BatchNorm(c.norm_decay, c.norm_epsilon, scale_init, name=f"norm{i}")(y, train=train)
            y = drop(y if last else nn.relu(y), f"drop{i}")
        if self.stride != 1 or x.shape[-1] != out:
            x = conv(out, 1, self.stride, padding=0, dtype=DTYPES[c.precision], name="shortcut_conv")(x)
            x = BatchNorm(c.norm_decay, c.norm_epsilon, name="shortcut_norm")(x, train=train)
        return nn.relu(drop(x, "shortcut_drop") + y)


class ResNetModule(nn.Module):
    """[N, H, W, 3] → logits [N, classes]."""

    config: ResNet
    classes: int

    @nn.compact
    def __call__(self, x: Array, *, train: bool) -> Array:
        c = self.config
        stem = partial(conv, c.channels, dtype=DTYPES[c.precision], name="stem_conv")
        x = stem(size=7, stride=2, padding=3)(x) if c.stem == "imagenet" else stem(size=3, padding=1)(x)
        x = nn.relu(BatchNorm(c.norm_decay, c.norm_epsilon, name="stem_norm")(x, train=train))
        if c.stem == "imagenet":
            x = max_pool(x)

        block = maybe_remat(ResidualBlock, c.remat)
        for stage, count in enumerate(BLOCKS[c.depth], start=1):
            features, (first, *rest) = c.channels * 2 ** (stage - 1), [f"stage{stage}_block{i}" for i in range(count)]
            dropblock = {3: c.dropblock / 4, 4: c.dropblock}.get(stage, 0.0)
            x = block(c, features, 1 if stage == 1 else 2, dropblock, name=first)(x, train)
            x = chain(partial(block, c, features, 1, dropblock), rest, x, train, scan=c.scan)
        return classify(x, self.classes, dropout=c.dropout, train=train, hidden=c.hidden_layer)


def build(config: ResNet, classes: int) -> nn.Module:
    """Make the linen module from its settings."""
    return ResNetModule(config, classes)
