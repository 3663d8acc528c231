"""Which network a file of weights belongs to: our files say so; for timm's, the first network that fits is taken."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
from safetensors import SafetensorError, safe_open

from metapl import models
from metapl.config import KINDS
from metapl.models.efficientnet import EfficientNet
from metapl.models.resnet import ResNet
from metapl.schema import ConfigError, from_dict, validate
from metapl.types import ModelConfig, Weights
from metapl.weights import load

VARIANTS = ("b0", "b1", "b2", "b3", "b4", "b5", "b6", "b7")


class Start(NamedTuple):
    """The network, and whether its pictures are normalised by ImageNet's mean and deviation."""

    model: ModelConfig
    of_imagenet: bool


def recognise(file: str) -> Start:
    """The network that the file's weights fit; ConfigError if there is none."""
    path = Path(file)
    metadata = _metadata(path)
    if "model" in metadata:
        model = from_dict(ModelConfig, json.loads(metadata["model"]), KINDS)
        validate(model)
        return Start(model, of_imagenet=False)
    problems = []
    for model in _of_timm(path.name.startswith("tf_")):
        try:
            load(path, _shapes(model))
        except ConfigError as error:
            problems.append(str(error))
        else:
            return Start(model, of_imagenet=True)
    raise ConfigError(
        f"--init-from: {file} is neither from a run of metapl nor timm's resnet18, resnet50 or efficientnet_b0 to b7; "
        f"compared with a ResNet-18: {problems[0]}"
    )


def _metadata(path: Path) -> dict[str, str]:
    if not path.is_file():
        raise ConfigError(f"--init-from: {path} is not a file")
    try:
        with safe_open(path, framework="numpy") as file:
            return dict(file.metadata() or {})
    except (SafetensorError, OSError, ValueError, TypeError) as error:
        raise ConfigError(f"--init-from: {path} cannot be read as a safetensors file: {error}") from None


def _of_timm(of_tensorflow: bool) -> Iterator[ModelConfig]:
    """timm's networks. Its own EfficientNets pad like PyTorch, those named tf_… like TensorFlow (docs/models.md)."""
    yield ResNet(depth=18)
    yield ResNet(depth=50)
    for variant in VARIANTS:
        if of_tensorflow:
            yield EfficientNet(variant=variant)  # type: ignore[arg-type]
        else:
            yield EfficientNet(variant=variant, padding="symmetric", norm_epsilon=1e-5)  # type: ignore[arg-type]


def _shapes(model: ModelConfig) -> Weights:
    network = models.build(model, 1000)
    return jax.eval_shape(network.init, jax.random.key(0), jnp.zeros((1, 64, 64, 3)))
