"""Weights with timm's names that a formula gives, for tests where neither timm nor PyTorch is.

    python tests/models/timm_like.py      prints the logits that test_pretrained.py stores; needs PyTorch

Each tensor is drawn from NumPy's PCG64 with a seed that is its name's checksum, at a scale that keeps a network's
activations near one, with norms and statistics away from their first values.
"""

import zlib

import numpy as np
from numpy.typing import NDArray

STORED = {  # name: (network, its arguments, side of the pictures)
    "resnet18": ("resnet18", {}, 33),
    "resnet50": ("resnet50", {}, 33),
    "efficientnet_b0": ("efficientnet", {"padding": "symmetric", "epsilon": 1e-5}, 33),
    "tf_efficientnet_b0": ("efficientnet", {"padding": "same", "epsilon": 1e-3}, 34),
}
CLASSES = 3


Shapes = dict[str, tuple[int, ...]]


def shapes(name: str) -> Shapes:
    """Names and shapes of all tensors of timm's network of this name, but for the batch norms' counters."""
    return efficientnet_b0() if "efficientnet" in name else resnet(int(name.removeprefix("resnet")))


def resnet(depth: int) -> Shapes:
    """timm's resnet18 or resnet50."""
    basic = depth == 18
    found = {"conv1.weight": (64, 3, 7, 7)} | norm("bn1", 64)
    inputs = 64
    for stage, blocks in enumerate((2, 2, 2, 2) if basic else (3, 4, 6, 3)):
        width = 64 * 2**stage
        outputs = width if basic else 4 * width
        layers = ((width, 3), (width, 3)) if basic else ((width, 1), (width, 3), (outputs, 1))
        for block in range(blocks):
            module, first = f"layer{stage + 1}.{block}", inputs
            for i, (channels, side) in enumerate(layers, start=1):
                found |= {f"{module}.conv{i}.weight": (channels, inputs, side, side)} | norm(
                    f"{module}.bn{i}", channels
                )
                inputs = channels
            if first != outputs:
                found |= {f"{module}.downsample.0.weight": (outputs, first, 1, 1)}
                found |= norm(f"{module}.downsample.1", outputs)
    return found | {"fc.weight": (CLASSES, inputs), "fc.bias": (CLASSES,)}


def efficientnet_b0() -> Shapes:
    """timm's efficientnet_b0, and tf_efficientnet_b0, which differs in nothing that is stored."""
    found = {"conv_stem.weight": (32, 3, 3, 3)} | norm("bn1", 32)
    inputs = 32
    stages = ((1, 3, 16), (2, 3, 24), (2, 5, 40), (3, 3, 80), (3, 5, 112), (4, 5, 192), (1, 3, 320))
    for stage, (blocks, side, outputs) in enumerate(stages):
        for block in range(blocks):
            module, squeezed = f"blocks.{stage}.{block}", inputs // 4
            middle = 6 * inputs if stage else inputs
            if stage:
                found |= {f"{module}.conv_pw.weight": (middle, inputs, 1, 1)} | norm(f"{module}.bn1", middle)
            found |= {f"{module}.conv_dw.weight": (middle, 1, side, side)}
            found |= norm(f"{module}.bn2" if stage else f"{module}.bn1", middle)
            found |= {f"{module}.se.conv_reduce.weight": (squeezed, middle, 1, 1)}
            found |= {f"{module}.se.conv_reduce.bias": (squeezed,)}
            found |= {f"{module}.se.conv_expand.weight": (middle, squeezed, 1, 1)}
            found |= {f"{module}.se.conv_expand.bias": (middle,)}
            found |= {f"{module}.conv_pwl.weight" if stage else f"{module}.conv_pw.weight": (outputs, middle, 1, 1)}
            found |= norm(f"{module}.bn3" if stage else f"{module}.bn2", outputs)
            inputs = outputs
    found |= {"conv_head.weight": (1280, inputs, 1, 1)} | norm("bn2", 1280)
    return found | {"classifier.weight": (CLASSES, 1280), "classifier.bias": (CLASSES,)}


def norm(module: str, channels: int) -> Shapes:
    """What a batch norm stores."""
    return {f"{module}.{leaf}": (channels,) for leaf in ("weight", "bias", "running_mean", "running_var")}


def tensor(name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """The numbers of the tensor of this name."""
    generator = np.random.Generator(np.random.PCG64(zlib.crc32(name.encode())))
    if name.endswith(("running_var", "bn1.weight", "bn2.weight", "bn3.weight", "downsample.1.weight")):
        # Residual sums grow; swish and squeeze-excite shrink what passes them.
        scale = 0.4 if "layer" in name and "bn3.weight" in name else 0.95 if "blocks" in name and "var" in name else 1
        return (scale * generator.uniform(0.5, 1.5, shape)).astype(np.float32)
    if len(shape) == 1:
        return generator.uniform(-0.2, 0.2, shape).astype(np.float32)
    inputs = int(np.prod(shape[1:]))
    return (generator.standard_normal(shape) * np.sqrt(2 / inputs)).astype(np.float32)


def pictures(height: int, width: int) -> NDArray[np.float32]:
    """Two pictures [2, height, width, 3] of different colours and much noise."""
    generator = np.random.Generator(np.random.PCG64(height * 1000 + width))
    colours = generator.uniform(-1, 1, (2, 1, 1, 3))
    return (colours + generator.standard_normal((2, height, width, 3))).astype(np.float32)


def main() -> None:
    """Compute what the tests store."""
    import torch
    import torch_networks

    for name, (network, arguments, side) in STORED.items():
        copy = getattr(torch_networks, network)(classes=CLASSES, **arguments).eval()
        with torch.no_grad():
            for key, value in copy.state_dict().items():
                if value.ndim:  # not a batch norm's counter
                    value.copy_(torch.from_numpy(tensor(key, tuple(value.shape))))
            logits = copy(torch.from_numpy(pictures(side, side)).permute(0, 3, 1, 2))
        print(name, np.array2string(logits.numpy(), separator=", ", floatmode="maxprec"))


if __name__ == "__main__":
    main()
