"""Random networks as ONNX: each file computes what the network does, or the export refuses it in a sentence.

The bytes of an input are the seed that the network is drawn with: its kind, sizes, classes, picture and weights.
"""

import dataclasses
import random
from pathlib import Path
from typing import Any

import jax
import numpy as np

from metapl import models
from metapl.augment.views import Augmentation, WeakView
from metapl.config import Config
from metapl.evaluate.predictor import Predictor
from metapl.export import check
from metapl.export.formats import plain, write_onnx
from metapl.inference.forward import weight_shapes
from metapl.models.efficientnet import EfficientNet
from metapl.models.mlp import MLP
from metapl.models.resnet import ResNet
from metapl.models.vit import ViT
from metapl.models.wide_resnet import WideResNet
from metapl.types import ModelConfig
from metapl.weights import Example

COMMON = (12, 3, 1, 1, 6)  # how often each kind is drawn: the larger ones take seconds to compile


def seeds(place: Path) -> list[bytes]:
    """Any bytes will do."""
    return [b"a network"]


def read(path: Path) -> None:
    """Draw a network, export it, and compare both on random pictures."""
    draw = random.Random(path.read_bytes())
    predictor = _predictor(draw)
    pictures = np.random.default_rng(draw.randrange(2**32)).integers(0, 256, (5, *predictor.example.shape), np.uint8)
    exported = write_onnx(plain(predictor), path.with_suffix(".onnx"))
    check.refuse_if_far("onnx", check.largest_difference(predictor, exported, pictures), check.TOLERANCE)


def _predictor(draw: random.Random) -> Predictor:
    model, smallest = _model(draw)
    side = draw.randint(smallest, smallest + 9)
    channels = draw.choice((1, 3)) if isinstance(model, MLP) else 3
    example = Example((side, side, channels), "uint8")
    size = draw.choice((0, side + draw.randint(0, 5)))
    view = Augmentation(size=size, weak=WeakView(crop="resized" if size else "shift"))
    config = dataclasses.replace(Config(), model=model, augmentation=view)
    classes = draw.randint(2, 12)
    network = models.build(model, classes)
    shapes = weight_shapes(network, view, jax.ShapeDtypeStruct((1, *example.shape), example.dtype))
    numbers = np.random.default_rng(draw.randrange(2**32))
    weights = jax.tree.map(lambda leaf: numbers.normal(0, 0.3, leaf.shape).astype(np.float32), shapes)
    weights = weights._replace(stats=jax.tree.map(lambda leaf: np.abs(leaf) + np.float32(0.5), weights.stats))
    names = tuple(map(str, range(classes)))
    return Predictor(config, network, weights, names, example, temperature=draw.choice((1.0, 0.5, 3.0)))


def _model(draw: random.Random) -> tuple[ModelConfig, int]:
    """A small network, and the side of the smallest picture for it."""
    hidden = tuple(draw.randint(1, 9) for _ in range(draw.randint(0, 3)))
    kinds: list[tuple[Any, int]] = [
        (MLP(hidden, activation=draw.choice(("relu", "sigmoid"))), 1),
        (WideResNet(depth=10, width=1, leaky_slope=draw.choice((0.0, 0.1)), hidden_layer=draw.choice((0, 5))), 4),
        (ResNet(depth=18, channels=2), 16),
        (EfficientNet(width=0.1, depth=0.1), 16),
        (ViT(patch=4, resolution=12, width=8, depth=1, heads=2, pooling=draw.choice(("mean", "token"))), 12),
    ]
    return draw.choices(kinds, COMMON)[0]
