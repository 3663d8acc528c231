"""The folder of a finished run, without the training: settings, and weights drawn at random."""

import json
from pathlib import Path

import jax
import numpy as np
from PIL import Image

from metapl import config as configs
from metapl import models
from metapl.augment.views import eval_view
from metapl.schema import to_dict
from metapl.types import Weights
from metapl.weights import Example, save

SETTINGS = """
[data]
name = "folder"
size = 6
[model]
name = "mlp"
hidden = [4]
"""
NAMES = ("=ant", "bee & <script>", 'c"a,t')
SIX = Example((6, 6, 3), "uint8")


def drawn(config: configs.Config, classes: int, example: Example, seed: int = 0) -> Weights:
    """Weights that answer each picture otherwise."""
    network, view = models.build(config.stage_models[-1], classes), eval_view(config.augmentation)
    one = jax.ShapeDtypeStruct((1, *example.shape), example.dtype)
    shapes = jax.eval_shape(lambda key, one: network.init(key, view(one)), jax.random.key(0), one)
    draw = np.random.default_rng(seed)
    weights = jax.tree.map(lambda leaf: draw.normal(0, 0.3, leaf.shape).astype(np.float32), shapes)
    return weights._replace(stats=jax.tree.map(lambda leaf: np.abs(leaf) + np.float32(0.5), weights.stats))


def make_run(folder: Path, settings: str = SETTINGS, names=NAMES, example: Example = SIX, seeds=(0,)) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    config = configs.parse(settings, "test")
    (folder / "config.toml").write_text(configs.dump(config), "utf-8")
    for seed in seeds:
        name = "weights.safetensors" if len(seeds) == 1 else f"weights-{seed}.safetensors"
        weights = drawn(config, len(names), example, seed)
        save(folder / name, weights, to_dict(config.stage_models[-1]), names, example)
    return folder


def fit_folder(folder: Path, **changes) -> Path:
    """What `metapl fit` leaves: model.json beside the run that it names."""
    make_run(folder / "chosen")
    noted = {"format": 1, "run": "chosen", "temperature": 2.0} | changes
    (folder / "model.json").write_text(json.dumps(noted), "utf-8")
    return folder


def picture(path: Path, seed: int = 0, size: tuple[int, int] = (6, 6)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (*size, 3), np.uint8)
    Image.fromarray(pixels).save(path)
    return path
