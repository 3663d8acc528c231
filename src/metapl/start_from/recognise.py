"""Which network pretrained weights belong to, and how the pictures that it was trained on were prepared.

Our own files say the network in their metadata. For other files the tensors' shapes say it: those of a ViT or a
ConvNeXt are read off, for ResNets and EfficientNets the first network that fits is taken. What shapes cannot say comes
from the Hub's config.json (mean, deviation, size), or is what most of timm's networks have.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from safetensors import SafetensorError, safe_open

from metapl import models
from metapl.models import efficientnet_lite, packages
from metapl.models.convnext import VARIANTS as CONVNEXTS
from metapl.models.convnext import ConvNeXt
from metapl.models.efficientnet import EfficientNet
from metapl.models.efficientnet_lite import EfficientNetLite
from metapl.models.resnet import ResNet
from metapl.models.vit import VARIANTS as VITS
from metapl.models.vit import ViT
from metapl.schema import ConfigError, from_dict, validate
from metapl.start_from import find, hub
from metapl.types import ModelConfig, Weights
from metapl.weights import load

KINDS: dict[type, dict[str, type]] = {ModelConfig: {kind.name: kind for kind in models.MODELS}}
EFFICIENTNETS = ("b0", "b1", "b2", "b3", "b4", "b5", "b6", "b7")
IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # mean and deviation of its pictures, for values in 0 to 1
KNOWN = "resnet18, resnet50, efficientnet_b0 to b7, ViTs (also DeiT, DINOv2) and convnext_tiny to _large"

Shapes = Mapping[str, tuple[int, ...]]


class Pretrained(NamedTuple):
    """A network with weights from elsewhere, and the pictures that it was trained on."""

    model: ModelConfig
    file: Path
    mean: tuple[float, ...] = ()  # empty: not known, as of our own runs
    std: tuple[float, ...] = ()
    side: int = 0  # in pixels; 0: not known


def recognise(name: str) -> Pretrained:
    """The network that `init_from` names; ConfigError if it is none of ours."""
    if not find.is_path(name):
        if name in packages.NAMES:
            return _of_package(name)
        return _of_hub(name)
    path = Path(name)
    metadata, shapes = _read(path)
    if "model" in metadata:
        model = from_dict(ModelConfig, _json(metadata["model"], path), KINDS)
        validate(model)
        return Pretrained(model, path)
    return Pretrained(_of_shapes(path, shapes, path.name, name), path, *IMAGENET)


def weight_shapes(model: ModelConfig, classes: int = 1000) -> Weights:
    """Shapes of the network's weights; nothing is computed."""
    network = models.build(model, classes)
    return jax.eval_shape(network.init, jax.random.key(0), jnp.zeros((1, 64, 64, 3)))


def _of_package(name: str) -> Pretrained:
    model = from_dict(EfficientNetLite, {"variant": name.removeprefix("efficientnet_")}, {})
    mean, std = efficientnet_lite.MEAN / 255, efficientnet_lite.SCALE / 255
    return Pretrained(model, find.file_of(name), (mean,), (std,), model.resolution)


def _of_hub(name: str) -> Pretrained:
    """Read the repository's config.json, which is data alone: timm's name of the network, mean, deviation and size."""
    file = hub.fetch(name)
    notes = _json(hub.fetch(name, hub.SETTINGS).read_text("utf-8", "replace"), name)
    own: Any = notes.get("pretrained_cfg", notes)
    try:
        mean, std = (tuple(map(float, own[key])) for key in ("mean", "std"))
        side, architecture = int(own["input_size"][-1]), str(notes["architecture"])
        right = len(mean) == len(std) == 3 and side > 0 and all(math.isfinite(x) for x in mean) and min(std) > 0
    except (KeyError, TypeError, ValueError, IndexError):
        right = False
    if not right:
        raise ConfigError(
            f"{name}: its config.json does not say architecture, mean, std and input_size as timm's do; download "
            "model.safetensors, and give init_from its path"
        )
    return Pretrained(_of_shapes(file, _read(file)[1], architecture, name), file, mean, std, side)


def _of_shapes(file: Path, shapes: Shapes, architecture: str, called: str) -> ModelConfig:
    """The network whose weights have these shapes; timm's name of it says what they do not: how it pads."""
    candidates: list[ModelConfig]
    if "patch_embed.proj.weight" in shapes:
        candidates = [_vit(shapes)]
    elif "stem.0.weight" in shapes:
        candidates = [_convnext(shapes)]
    elif "conv_stem.weight" in shapes:
        candidates = list(_efficientnets(architecture))
    else:
        candidates = [ResNet(depth=18), ResNet(depth=50)]
    problems = []
    for model in candidates:
        try:
            validate(model)
            load(file, weight_shapes(model), called)
        except ConfigError as error:
            problems.append((str(error), model.name))
        else:
            return model
    raise ConfigError(
        f"{called} is neither from a run of metapl nor one of timm's networks that metapl has ({KNOWN}); compared with "
        f"a {problems[0][1]}: {problems[0][0]}"
    )


def _vit(shapes: Shapes) -> ViT:
    """A ViT's settings from its tensors; heads have 64 channels in all of timm's that we have."""
    width, _, patch, _ = _four(shapes, "patch_embed.proj.weight")
    token = "cls_token" in shapes
    registers = shapes.get("reg_token", (1, 0, 0))[1:2] or (0,)
    places = (*shapes.get("pos_embed", ()), 0, 0)[1]
    extra = int(token) + registers[0]
    # Registers came with networks whose positions are those of the patches alone.
    own = next((own for own in ((0, extra) if registers[0] else (extra, 0)) if _is_square(places - own)), 0)
    variant = next((name for name, (channels, *_) in VITS.items() if channels == width), "s")
    return ViT(
        variant=variant,  # type: ignore[arg-type]
        patch=max(1, patch),
        resolution=max(1, patch) * math.isqrt(max(1, places - own)),
        width=None if VITS[variant].width == width else width,
        depth=_blocks(shapes, r"blocks\.(\d+)\.", VITS[variant].depth),
        heads=None if VITS[variant].width == width else max(1, width // 64),
        pooling="mean" if "fc_norm.weight" in shapes else "token",
        class_token=token,
        registers=registers[0],
        position_of_tokens=own == extra,
        layer_scale=1e-5 if "blocks.0.ls1.gamma" in shapes else 0.0,
    )


def _convnext(shapes: Shapes) -> ConvNeXt:
    channels = _four(shapes, "stem.0.weight")[0]
    blocks = tuple(_blocks(shapes, rf"stages\.{stage}\.blocks\.(\d+)\.", None) or 1 for stage in range(4))
    for name, variant in CONVNEXTS.items():
        if variant == (channels, blocks):
            return ConvNeXt(variant=name)  # type: ignore[arg-type]
    return ConvNeXt(channels=max(1, channels), blocks=blocks)


def _efficientnets(architecture: str) -> Iterator[ModelConfig]:
    """timm's own EfficientNets pad like PyTorch, those named tf_… like TensorFlow (docs/models.md)."""
    own: dict[str, Any] = {} if architecture.startswith("tf_") else {"padding": "symmetric", "norm_epsilon": 1e-5}
    for variant in EFFICIENTNETS:
        yield EfficientNet(variant=variant, **own)  # type: ignore[arg-type]
    for variant in EfficientNetLite.variants:
        yield EfficientNetLite(variant=variant, **own)  # type: ignore[arg-type]


def _four(shapes: Shapes, name: str) -> tuple[int, int, int, int]:
    """The shape of a convolution's kernel; ones if it has not four sides, so that the comparison can say so."""
    shape = shapes[name]
    return shape if len(shape) == 4 else (1, 1, 1, 1)


def _blocks(shapes: Shapes, pattern: str, usual: int | None) -> int | None:
    """How many blocks there are; None if that is the usual number."""
    numbers = {int(match[1]) for name in shapes if (match := re.match(pattern, name))}
    return None if len(numbers) in (usual, 0) else len(numbers)


def _is_square(number: int) -> bool:
    return number > 0 and math.isqrt(number) ** 2 == number


def _read(path: Path) -> tuple[dict[str, str], Shapes]:
    """A file's metadata, and its tensors' shapes; the numbers are not read."""
    if not path.is_file():
        raise ConfigError(f"{path} is not a file")
    try:
        with safe_open(path, framework="numpy") as file:
            names = list(file.keys())
            return dict(file.metadata() or {}), {name: tuple(file.get_slice(name).get_shape()) for name in names}
    except (SafetensorError, OSError, ValueError, TypeError) as error:
        raise ConfigError(f"{path} cannot be read as a safetensors file: {error}") from None


def _json(text: str, origin: object) -> dict[str, Any]:
    try:
        notes = json.loads(text)
    except (ValueError, RecursionError):
        notes = None
    if not isinstance(notes, dict):
        raise ConfigError(f"{origin}: its notes are not a JSON object; the file is damaged")
    return notes
