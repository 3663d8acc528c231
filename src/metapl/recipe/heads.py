"""Settings of runs that train heads on stored features, and the heads that such a run has trained."""

import dataclasses
from pathlib import Path
from typing import Literal

import jax
import jax.numpy as jnp

from metapl import config as configs
from metapl import models
from metapl.algorithms.feedback import Feedback
from metapl.algorithms.fixmatch import FixMatch
from metapl.algorithms.mpl import MPL
from metapl.algorithms.supervised import Supervised
from metapl.algorithms.uda import UDA, Consistency
from metapl.config import Config, Stage
from metapl.models.assemble import Head
from metapl.models.mlp import MLP
from metapl.optim import Optimizer
from metapl.schema import ConfigError
from metapl.types import MethodConfig
from metapl.weights import about, load_all

Method = Literal["supervised", "uda", "fixmatch", "mpl"]
STEPS, LABELED, UNLABELED = 1500, 64, 192
HEAD = MLP(hidden=(128,), activation="relu", init_range=0.1)
SMOOTHING = 0.1


def settings(method: Method, base: Config, steps: int = STEPS) -> Config:
    """The settings of a run of heads; `base` has the features as data, and the seed."""
    stage = Stage(_method(method, steps), steps, LABELED, UNLABELED)
    return dataclasses.replace(base, model=HEAD, stages=(stage,), log_every_steps=max(1, steps // 10))


def of_run(run: Path) -> list[Head]:
    """Read the heads of a finished run: one for each seed."""
    config = configs.load(str(run / "config.toml"))
    model = config.stage_models[-1]
    if not isinstance(model, MLP):
        raise ConfigError(f"{run} did not train heads on features, but the network {model.name}")
    heads = []
    for file in sorted(run.glob("weights*.safetensors"), key=_seed):
        class_names, example = about(file)
        if example is None:
            raise ConfigError(f"{file} does not say how many features it takes")
        network = models.build(model, len(class_names))
        expected = jax.eval_shape(network.init, jax.random.key(0), jnp.zeros((1, example.shape[-1])))
        heads.append(Head(model, load_all(file, expected)))
    if not heads:
        raise ConfigError(f"{run} has no weights: the run did not finish")
    return heads


def _seed(file: Path) -> int:
    return int(file.stem.partition("-")[2] or 0)


def _method(method: Method, steps: int) -> MethodConfig:
    optimizer = Optimizer(learning_rate=0.12)
    consistency = Consistency(weight=1.0, temperature=0.7, ramp_steps=steps // 5)
    match method:
        case "supervised":
            return Supervised(optimizer, SMOOTHING)
        case "uda":
            return UDA(consistency, optimizer, SMOOTHING)
        case "fixmatch":
            return FixMatch(threshold=0.8, optimizer=optimizer, label_smoothing=SMOOTHING)
        case "mpl":
            return MPL(
                feedback=Feedback("soft", scale="balanced"),
                labels="soft",
                consistency=consistency,
                label_smoothing=SMOOTHING,
                teacher=optimizer,
                student=optimizer,
            )
