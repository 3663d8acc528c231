"""Our weights under timm's names and in PyTorch's layouts: the opposite of `from_timm`, to test it both ways."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from metapl.models.pretrained import _CONVNEXT, _EFFICIENTNET, _RESNET, _VIT, _VIT_TOKENS, Tensors, _other

# Our name of the network -> its rules in timm.
_OF_MODEL = {
    "resnet": _RESNET,
    "efficientnet": _EFFICIENTNET,
    "efficientnet_lite": _EFFICIENTNET,
    "vit": _VIT,
    "convnext": _CONVNEXT,
}


def to_timm(tensors: Tensors, model: str, fc_norm: bool = False) -> Tensors | None:
    """The opposite of `from_timm` for our network of this name; None if timm has no such network.

    `fc_norm`: whether timm calls a ViT's last norm so, as it does if the patches are averaged.
    """
    if model not in _OF_MODEL:
        return None
    rules = tuple((ours, theirs) for theirs, ours in _OF_MODEL[model] if fc_norm or theirs != "fc_norm")
    rules = tuple(row for row in rules if not fc_norm or row[1] != "norm")
    tokens = {ours: theirs for theirs, ours in _VIT_TOKENS.items()}
    renamed = {}
    for name, tensor in tensors.items():
        module, _, leaf = name.partition("/")[2].rpartition("/")
        if not module and leaf in tokens:
            renamed[tokens[leaf]] = tensor
        else:
            theirs, value = _their_leaf(leaf, module, tensor)
            renamed[f"{_other(module, rules)}.{theirs}"] = value
    return renamed


def _their_leaf(leaf: str, module: str, tensor: NDArray[Any]) -> tuple[str, NDArray[Any]]:
    """PyTorch's name of a module's tensor, and the tensor in its layout."""
    match leaf:
        case "kernel":
            return "weight", np.transpose(tensor, (3, 2, 0, 1)) if tensor.ndim == 4 else tensor.T
        case "scale":
            return "gamma" if "layer_scale" in module else "weight", tensor
        case "mean" | "var":
            return f"running_{leaf}", tensor
    return leaf, tensor
