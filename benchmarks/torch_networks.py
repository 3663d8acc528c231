"""The paper's networks in plain PyTorch: for comparing speed, and for testing the mapping of weights.

ResNet and EfficientNet have timm's state-dict names (ResNet's are torchvision's, too), so their files load here
unchanged. Importing this file needs PyTorch; metapl itself does not.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

Padding = Literal["same", "symmetric"]
BATCH_NORM_DECAY = 0.99  # of the moving averages; PyTorch's momentum is one minus this


@dataclass(frozen=True)
class Layers:
    """What the convolutions and normalizations of one network have in common."""

    padding: Padding = "symmetric"
    """`symmetric` pads both sides equally, as PyTorch does; `same` pads as TensorFlow does, more at the end if odd."""
    epsilon: float = 1e-5

    def conv(self, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Conv2d:
        """Make a convolution without bias, He-initialized by its fan-out."""
        make = SameConv2d if self.padding == "same" and stride > 1 else nn.Conv2d
        conv = make(inputs, outputs, kernel, stride, (kernel - 1) // 2, groups=groups, bias=False)
        nn.init.normal_(conv.weight, std=math.sqrt(2 / (kernel * kernel * outputs / groups)))
        return conv

    def norm(self, channels: int) -> nn.BatchNorm2d:
        """Make a batch normalization."""
        return nn.BatchNorm2d(channels, self.epsilon, 1 - BATCH_NORM_DECAY)


class SameConv2d(nn.Conv2d):
    """A convolution whose output is ⌈size / stride⌉ and whose uneven padding goes to the right and below."""

    def forward(self, x: Tensor) -> Tensor:
        (kernel, _), (stride, _) = self.kernel_size, self.stride
        x = functional.pad(x, (*same_padding(x.shape[3], kernel, stride), *same_padding(x.shape[2], kernel, stride)))
        return functional.conv2d(x, self.weight, None, self.stride, 0, self.dilation, self.groups)


def same_padding(size: int, kernel: int, stride: int) -> tuple[int, int]:
    """Pixels before and after, as TensorFlow's SAME has them."""
    total = max((math.ceil(size / stride) - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


# --- WideResNet -------------------------------------------------------------------------------------------------------


class WideBlock(nn.Module):
    """Normalize, activate, convolve, twice; the shortcut of a block that changes shape starts after the activation."""

    def __init__(self, layers: Layers, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.norm1 = layers.norm(inputs)
        self.conv1 = layers.conv(inputs, outputs, 3, stride)
        self.norm2 = layers.norm(outputs)
        self.conv2 = layers.conv(outputs, outputs, 3)
        self.shortcut = layers.conv(inputs, outputs, 1, stride) if inputs != outputs else None

    def forward(self, x: Tensor) -> Tensor:
        activated = leaky(self.norm1(x))
        skipped = x if self.shortcut is None else self.shortcut(activated)
        return self.conv2(leaky(self.norm2(self.conv1(activated)))) + skipped


class WideResNet(nn.Module):
    """WideResNet-depth-width for small pictures, with a stem of 16 channels."""

    def __init__(self, layers: Layers, depth: int, width: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.stem = layers.conv(3, 16, 3)
        blocks: list[nn.Module] = []
        inputs = 16
        for stage, outputs in enumerate((16 * width, 32 * width, 64 * width)):
            for block in range((depth - 4) // 6):
                stride = 2 if stage and not block else 1
                blocks.append(WideBlock(layers, inputs, outputs, stride))
                inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        self.norm = layers.norm(inputs)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(inputs, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = leaky(self.norm(self.blocks(self.stem(x))))
        return self.head(self.dropout(x.mean((2, 3))))


def leaky(x: Tensor) -> Tensor:
    """Apply a leaky ReLU with slope 0.1."""
    return functional.leaky_relu(x, 0.1, inplace=True)


def wide_resnet(
    depth: int = 28, width: int = 2, classes: int = 10, padding: Padding = "symmetric", dropout: float = 0.0
) -> nn.Module:
    """WideResNet-28-2, or another one."""
    return WideResNet(Layers(padding, epsilon=1e-3), depth, width, classes, dropout)


# --- ResNet -----------------------------------------------------------------------------------------------------------


class BasicBlock(nn.Module):
    """Two 3×3 convolutions."""

    expansion = 1

    def __init__(self, layers: Layers, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = layers.conv(inputs, width, 3, stride)
        self.bn1 = layers.norm(width)
        self.conv2 = layers.conv(width, width, 3)
        self.bn2 = layers.norm(width)
        self.downsample = downsample(layers, inputs, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        skipped = x if self.downsample is None else self.downsample(x)
        x = functional.relu(self.bn1(self.conv1(x)), inplace=True)
        return functional.relu(self.bn2(self.conv2(x)) + skipped, inplace=True)


class Bottleneck(nn.Module):
    """1×1, 3×3, 1×1 convolutions; the middle one has the stride (known as v1.5)."""

    expansion = 4

    def __init__(self, layers: Layers, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = self.expansion * width
        self.conv1 = layers.conv(inputs, width, 1)
        self.bn1 = layers.norm(width)
        self.conv2 = layers.conv(width, width, 3, stride)
        self.bn2 = layers.norm(width)
        self.conv3 = layers.conv(width, outputs, 1)
        self.bn3 = layers.norm(outputs)
        self.downsample = downsample(layers, inputs, outputs, stride)

    def forward(self, x: Tensor) -> Tensor:
        skipped = x if self.downsample is None else self.downsample(x)
        x = functional.relu(self.bn1(self.conv1(x)), inplace=True)
        x = functional.relu(self.bn2(self.conv2(x)), inplace=True)
        return functional.relu(self.bn3(self.conv3(x)) + skipped, inplace=True)


def downsample(layers: Layers, inputs: int, outputs: int, stride: int) -> nn.Module | None:
    """Bring a block's input to the shape of its output; None if they are equal."""
    if inputs == outputs and stride == 1:
        return None
    return nn.Sequential(layers.conv(inputs, outputs, 1, stride), layers.norm(outputs))


class ResNet(nn.Module):
    """A ResNet for large pictures."""

    def __init__(self, layers: Layers, block: Any, depths: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.padding = layers.padding
        self.conv1 = layers.conv(3, 64, 7, 2)
        self.bn1 = layers.norm(64)
        inputs = 64
        for stage, depth in enumerate(depths):
            blocks = []
            for index in range(depth):
                width = 64 * 2**stage
                blocks.append(block(layers, inputs, width, 2 if stage and not index else 1))
                inputs = width * block.expansion
            self.add_module(f"layer{stage + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.bn1(self.conv1(x)), inplace=True)
        if self.padding == "same":
            pads = (*same_padding(x.shape[3], 3, 2), *same_padding(x.shape[2], 3, 2))
            x = functional.max_pool2d(functional.pad(x, pads, value=-math.inf), 3, 2)
        else:
            x = functional.max_pool2d(x, 3, 2, 1)
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = stage(x)
        return self.fc(x.mean((2, 3)))


def resnet18(classes: int = 1000, padding: Padding = "symmetric") -> nn.Module:
    """ResNet-18: 11,689,512 parameters for 1,000 classes."""
    return ResNet(Layers(padding), BasicBlock, (2, 2, 2, 2), classes)


def resnet50(classes: int = 1000, padding: Padding = "symmetric") -> nn.Module:
    """ResNet-50: 25,557,032 parameters for 1,000 classes."""
    return ResNet(Layers(padding), Bottleneck, (3, 4, 6, 3), classes)


# --- EfficientNet -----------------------------------------------------------------------------------------------------

# kernel, stride, expansion, channels, blocks of each stage of B0 (Table 1 of the EfficientNet paper, arXiv 1905.11946)
STAGES = (
    (3, 1, 1, 16, 1),
    (3, 2, 6, 24, 2),
    (5, 2, 6, 40, 2),
    (3, 2, 6, 80, 3),
    (5, 1, 6, 112, 3),
    (5, 2, 6, 192, 4),
    (3, 1, 6, 320, 1),
)


class SqueezeExcite(nn.Module):
    """Scale each channel by a gate that is a function of all channels' means."""

    def __init__(self, channels: int, reduced: int) -> None:
        super().__init__()
        self.conv_reduce = nn.Conv2d(channels, reduced, 1)
        self.conv_expand = nn.Conv2d(reduced, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        gate = self.conv_expand(functional.silu(self.conv_reduce(x.mean((2, 3), keepdim=True)), inplace=True))
        return x * torch.sigmoid(gate)


class SeparableBlock(nn.Module):
    """A block without expansion: depthwise convolution, squeeze-excite, projection."""

    def __init__(self, layers: Layers, inputs: int, outputs: int, kernel: int, stride: int, drop_path: float) -> None:
        super().__init__()
        self.skips = inputs == outputs and stride == 1
        self.drop_path = drop_path
        self.conv_dw = layers.conv(inputs, inputs, kernel, stride, groups=inputs)
        self.bn1 = layers.norm(inputs)
        self.se = SqueezeExcite(inputs, inputs // 4)
        self.conv_pw = layers.conv(inputs, outputs, 1)
        self.bn2 = layers.norm(outputs)

    def forward(self, x: Tensor) -> Tensor:
        y = self.se(functional.silu(self.bn1(self.conv_dw(x)), inplace=True))
        y = self.bn2(self.conv_pw(y))
        return x + stochastic_depth(y, self.drop_path, self.training) if self.skips else y


class InvertedBlock(nn.Module):
    """A block with expansion, depthwise convolution, squeeze-excite and projection."""

    def __init__(
        self, layers: Layers, inputs: int, outputs: int, kernel: int, stride: int, drop_path: float, expansion: int
    ) -> None:
        super().__init__()
        self.skips = inputs == outputs and stride == 1
        self.drop_path = drop_path
        middle = inputs * expansion
        self.conv_pw = layers.conv(inputs, middle, 1)
        self.bn1 = layers.norm(middle)
        self.conv_dw = layers.conv(middle, middle, kernel, stride, groups=middle)
        self.bn2 = layers.norm(middle)
        self.se = SqueezeExcite(middle, inputs // 4)
        self.conv_pwl = layers.conv(middle, outputs, 1)
        self.bn3 = layers.norm(outputs)

    def forward(self, x: Tensor) -> Tensor:
        y = functional.silu(self.bn1(self.conv_pw(x)), inplace=True)
        y = self.se(functional.silu(self.bn2(self.conv_dw(y)), inplace=True))
        y = self.bn3(self.conv_pwl(y))
        return x + stochastic_depth(y, self.drop_path, self.training) if self.skips else y


def stochastic_depth(x: Tensor, rate: float, training: bool) -> Tensor:
    """Drop whole examples at random and scale up the others."""
    if not training or not rate:
        return x
    kept = torch.empty((len(x), 1, 1, 1), dtype=x.dtype, device=x.device).bernoulli_(1 - rate)
    return x * kept / (1 - rate)


class EfficientNet(nn.Module):
    """EfficientNet at any width and depth."""

    def __init__(
        self, layers: Layers, width: float, depth: float, classes: int, dropout: float, drop_path: float
    ) -> None:
        super().__init__()
        inputs = rounded(32, width)
        self.conv_stem = layers.conv(3, inputs, 3, 2)
        self.bn1 = layers.norm(inputs)
        total = sum(math.ceil(depth * repeats) for *_, repeats in STAGES)
        stages: list[nn.Module] = []
        done = 0
        for kernel, stride, expansion, channels, repeats in STAGES:
            blocks: list[nn.Module] = []
            for index in range(math.ceil(depth * repeats)):
                outputs = rounded(channels, width)
                shape = (inputs, outputs, kernel, 1 if index else stride, drop_path * done / total)
                block = SeparableBlock(layers, *shape) if expansion == 1 else InvertedBlock(layers, *shape, expansion)
                blocks.append(block)
                inputs = outputs
                done += 1
            stages.append(nn.Sequential(*blocks))
        self.blocks = nn.Sequential(*stages)
        features = rounded(1280, width)
        self.conv_head = layers.conv(inputs, features, 1)
        self.bn2 = layers.norm(features)
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(features, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.silu(self.bn1(self.conv_stem(x)), inplace=True)
        x = functional.silu(self.bn2(self.conv_head(self.blocks(x))), inplace=True)
        return self.classifier(self.dropout(x.mean((2, 3))))


def rounded(channels: int, width: float) -> int:
    """Scale and round to a multiple of 8, without losing more than a tenth."""
    scaled = channels * width
    multiple = max(8, int(scaled + 4) // 8 * 8)
    return multiple + 8 if multiple < 0.9 * scaled else multiple


def efficientnet(
    width: float = 1.0,
    depth: float = 1.0,
    classes: int = 1000,
    padding: Padding = "same",
    epsilon: float = 1e-3,
    dropout: float = 0.0,
    drop_path: float = 0.0,
) -> nn.Module:
    """EfficientNet-B0 with TensorFlow's padding and epsilon (timm's tf_efficientnet_b0), or another one."""
    return EfficientNet(Layers(padding, epsilon), width, depth, classes, dropout, drop_path)
