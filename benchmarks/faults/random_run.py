"""The folder of a finished run, without the training: settings, and weights drawn at random."""

from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np

from metapl import config as configs
from metapl import models
from metapl.inference.forward import weight_shapes
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
SIX = Example((6, 6, 3), "uint8")


def drawn(config: configs.Config, classes: int, example: Example, seed: int = 0) -> Weights:
    """Draw weights that give each picture another prediction."""
    network = models.build(config.stage_models[-1], classes)
    shapes = weight_shapes(network, config.augmentation, jax.ShapeDtypeStruct((1, *example.shape), example.dtype))
    draw = np.random.default_rng(seed)
    weights: Weights = jax.tree.map(lambda leaf: draw.normal(0, 0.3, leaf.shape).astype(np.float32), shapes)
    return weights._replace(stats=jax.tree.map(lambda leaf: np.abs(leaf) + np.float32(0.5), weights.stats))


def make_run(
    folder: Path, names: Sequence[str], settings: str = SETTINGS, example: Example = SIX, seeds: Sequence[int] = (0,)
) -> Path:
    """Write the folder; `names` are the classes."""
    folder.mkdir(parents=True, exist_ok=True)
    config = configs.parse(settings, "a run that was not trained")
    (folder / "config.toml").write_text(configs.dump(config), "utf-8")
    for seed in seeds:
        name = "weights.safetensors" if len(seeds) == 1 else f"weights-{seed}.safetensors"
        weights = drawn(config, len(names), example, seed)
        save(folder / name, weights, to_dict(config.stage_models[-1]), names, example)
    return folder
