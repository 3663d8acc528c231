"""Settings of runs that train heads on stored features, and the heads that such a run has trained.

A head is linear, as scikit-learn's answer is: without unlabelled pictures, a run would end near logistic regression.

    η = RATE / mean ‖x‖²        the curvature of the loss grows with ‖x‖²
    λ = 1 / (C N)               the penalty of logistic regression with this C on N labelled pictures

| symbol | name                        |
|--------|-----------------------------|
| η      | learning_rate               |
| λ      | Scale.penalty, weight_decay |
| ‖x‖²   | Scale.square                |
"""

import dataclasses
from pathlib import Path
from typing import Literal, NamedTuple

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
HEAD = MLP(hidden=(), init_range=0.01)
RATE, CONSISTENCY = 0.3, 4.0


class Scale(NamedTuple):
    """What the settings depend on."""

    square: float  # mean of ‖x‖²
    penalty: float


def settings(method: Method, base: Config, scale: Scale, steps: int = STEPS) -> Config:
    """The settings of a run of heads; `base` has the features as data, and the seed."""
    stage = Stage(_method(method, scale), steps, LABELED, UNLABELED)
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


def _method(method: Method, scale: Scale) -> MethodConfig:
    optimizer = Optimizer(
        learning_rate=RATE / scale.square,
        schedule="cosine",
        momentum=0.9,
        nesterov=True,
        weight_decay=scale.penalty,
        clip_norm=5.0,
    )
    consistency = Consistency(weight=CONSISTENCY, temperature=0.7, threshold=0.6)
    match method:
        case "supervised":
            return Supervised(optimizer)
        case "uda":
            return UDA(consistency, optimizer)
        case "fixmatch":
            return FixMatch(threshold=0.8, optimizer=optimizer)
        case "mpl":
            return MPL(
                feedback=Feedback("soft", scale="balanced"),
                labels="soft",
                consistency=consistency,
                teacher=optimizer,
                student=dataclasses.replace(optimizer, weight_decay=0.0),
            )
