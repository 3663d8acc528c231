"""WideResNet-d-k (Zagoruyko & Komodakis, 2016), as semi-supervised learning uses it (Oliver et al., 2018).

    stem (16) → 3 stages of n blocks, 16k, 32k, 64k channels → norm → leaky ReLU → mean → dropout → dense;  d = 6n + 4

A block is pre-activated: norm → act → conv 3×3 → norm → act → conv 3×3, plus its input. Where the shape changes, a
1×1 convolution of the first activation replaces the input. 28-2 with 10 classes has 1,467,610 parameters.

Where the sources differ, we follow Oliver et al., and differences that may matter are settings: their leaky ReLU has
slope 0.1, the released code of Meta Pseudo Labels has 0.2 (and a stem of 16k channels). As in the released code,
dropout is applied to the averaged features, right before the classifier, not between the convolutions of a block.
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

from annotated_types import Ge, Gt, Lt
from flax import linen as nn

from metapl.models.layers import DTYPES, Precision, classify, conv
from metapl.models.norm import BatchNorm
from metapl.models.remat import maybe_remat
from metapl.models.stacked import chain
from metapl.types import Array, ModelConfig


@dataclass(frozen=True)
class WideResNet(ModelConfig):
    """A WideResNet for small pictures; 28-2 is the paper's, 10-1 or 16-2 suit a CPU."""

    name: ClassVar[str] = "wide_resnet"

    depth: Annotated[int, Ge(10)] = 28
    """Layers with weights: 6n + 4, with n blocks in each of the three stages."""
    width: Annotated[int, Ge(1)] = 2
    """How many times as wide as a plain ResNet."""
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Share of the features that is dropped before the classifier."""
    hidden_layer: Annotated[int, Ge(0)] = 0
    """Units of a layer between the features and the classifier, with batch norm and ReLU; 0: none. SimCLR v2 finetunes
    such a network: the layer is the first of its projection head."""
    leaky_slope: Annotated[float, Ge(0), Lt(1)] = 0.1
    """Slope of the activation below zero; 0 is ReLU."""
    norm_decay: Annotated[float, Ge(0), Lt(1)] = 0.99
    """Share of the running batch-norm statistics that a step keeps."""
    norm_epsilon: Annotated[float, Gt(0)] = 1e-3
    """Added to the variance before its root."""
    precision: Precision = "float32"
    """Type of the activations; weights, statistics and logits are always float32."""
    remat: bool = False
    """Compute each block's activations twice instead of keeping them: less memory, about a third more work."""
    scan: bool = False
    """Compile the equal blocks of a stage once, as a loop: large networks compile in a fraction of the time. Not for
    CPUs, where the gradients of convolutions are slow in loops (docs/speed.md)."""

    def check(self) -> None:
        """Check fields against each other."""
        if self.depth % 6 != 4:
            raise ValueError(f"depth takes 6n + 4 (10, 16, 22, 28, 34, 40, …), got {self.depth}")


class WideBlock(nn.Module):
    """[N, H, W, C] → [N, H/stride, W/stride, features]."""

    config: WideResNet
    features: int
    stride: int

    @nn.compact
    def __call__(self, x: Array, train: bool) -> Array:
        c, dtype = self.config, DTYPES[self.config.precision]

        def norm_act(x: Array, name: str) -> Array:
            x = BatchNorm(c.norm_decay, c.norm_epsilon, name=name)(x, train=train)
            return nn.leaky_relu(x, c.leaky_slope)

        y = norm_act(x, "norm1")
        if self.stride != 1 or x.shape[-1] != self.features:
            x = conv(self.features, 1, self.stride, dtype=dtype, name="shortcut_conv")(y)
        y = conv(self.features, 3, self.stride, dtype=dtype, name="conv1")(y)
        y = norm_act(y, "norm2")
        y = conv(self.features, 3, dtype=dtype, name="conv2")(y)
        return x + y


class WideResNetModule(nn.Module):
    """[N, H, W, 3] → logits [N, classes]."""

    config: WideResNet
    classes: int

    @nn.compact
    def __call__(self, x: Array, *, train: bool) -> Array:
        c, count = self.config, (self.config.depth - 4) // 6
        block = maybe_remat(WideBlock, c.remat)
        x = conv(16, 3, dtype=DTYPES[c.precision], name="stem_conv")(x)
        for stage in (1, 2, 3):
            features, (first, *rest) = 8 * 2**stage * c.width, [f"stage{stage}_block{i}" for i in range(count)]
            x = block(c, features, 1 if stage == 1 else 2, name=first)(x, train)
            x = chain(partial(block, c, features, 1), rest, x, train, scan=c.scan)
        x = BatchNorm(c.norm_decay, c.norm_epsilon, name="head_norm")(x, train=train)
        x = nn.leaky_relu(x, c.leaky_slope)
        return classify(x, self.classes, dropout=c.dropout, train=train, hidden=c.hidden_layer)


def build(config: WideResNet, classes: int) -> nn.Module:
    """Make the linen module from its settings."""
    return WideResNetModule(config, classes)
