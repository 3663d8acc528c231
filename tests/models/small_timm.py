"""Small ViTs and ConvNeXts with timm's names: which they are, their weights by a formula, and how ours are called."""

import zlib

import numpy as np
from numpy.typing import NDArray

from metapl.models.convnext import ConvNeXt
from metapl.models.vit import ViT
from metapl.types import ModelConfig

SMALL = {"patch": 4, "resolution": 16, "width": 16, "depth": 2, "heads": 2}
NETWORKS = {  # name: (class in torch_copies.py, its arguments)
    "vit": ("ViT", {}),
    "vit, mean": ("ViT", {"mean": True, "token": False}),
    "vit, mean with a token": ("ViT", {"mean": True}),
    "vit, registers": ("ViT", {"registers": 4, "token_positions": False, "scaled": True}),
    "vit, registers with positions": ("ViT", {"registers": 1, "scaled": True}),
    "convnext": ("ConvNeXt", {}),
}
OURS: dict[str, ModelConfig] = {
    "vit": ViT(**SMALL),
    "vit, mean": ViT(**SMALL, pooling="mean", class_token=False),
    "vit, mean with a token": ViT(**SMALL, pooling="mean"),
    "vit, registers": ViT(**SMALL, registers=4, position_of_tokens=False, layer_scale=1e-5),
    "vit, registers with positions": ViT(**SMALL, registers=1, layer_scale=1e-5),
    "convnext": ConvNeXt(channels=4, blocks=(1, 2, 1, 1)),
}


def tensor(name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """The numbers of the tensor of this name: activations stay near one, and nothing is where it begins."""
    draw = np.random.Generator(np.random.PCG64(zlib.crc32(name.encode())))
    if len(shape) == 1 and name.endswith(("weight", "gamma")):
        return draw.uniform(0.5, 1.5, shape).astype(np.float32)
    if len(shape) == 1:
        return draw.uniform(-0.2, 0.2, shape).astype(np.float32)
    inputs = int(np.prod(shape[1:])) if name.endswith("weight") else 1
    return (draw.standard_normal(shape) / np.sqrt(inputs)).astype(np.float32)


def filled(copy):
    """A PyTorch copy in evaluation mode with these weights."""
    import torch

    with torch.no_grad():
        for name, value in copy.state_dict().items():
            value.copy_(torch.from_numpy(tensor(name, tuple(value.shape))))
    return copy.eval()


def tensors(copy) -> dict[str, NDArray[np.float32]]:
    """A PyTorch copy's tensors by their names."""
    return {name: value.numpy() for name, value in copy.state_dict().items()}
