"""Rungs of heads: runs on the cached features, several seeds at once, through the same machinery as every run.

METHOD-heads/ has a seed for each fold, which it is not trained on: these say how good the method is. As many seeds are
trained on all labels: they are the rung's model. All train at once, in one compiled program.
"""

import dataclasses
from pathlib import Path

import numpy as np
from rich.console import Console

from metapl import config as configs
from metapl.algorithms.mpl import MPL
from metapl.config import Config
from metapl.evaluate.finished_run import settings as settings_of
from metapl.evaluate.finished_run import weight_files
from metapl.features.folds import held_fold
from metapl.fit.encoded import Encoded
from metapl.fit.heads import log_probabilities
from metapl.fit.request import Request
from metapl.fit.rung import Logits
from metapl.fit.train import train
from metapl.inference.forward import weight_shapes
from metapl.models import build
from metapl.models.assemble import Head
from metapl.models.mlp import MLP
from metapl.weights import load_all

METHODS = ("uda", "fixmatch", "mpl")
SEEDS = 5  # without folds
STEPS = 600


def trained(out: Path, method: str, some: Encoded, request: Request, console: Console) -> tuple[Logits, list[Head]]:
    """Log-probabilities of each labelled picture by a head that was not trained on it, and heads trained on all."""
    config = settings(method, some, request)
    folder, seeds = out / f"{method}-heads", 2 * some.folds or SEEDS
    train(folder, config, console, seeds)
    model = settings_of(folder).model
    assert isinstance(model, MLP)
    like = weight_shapes(build(model, len(some.class_names)), config.augmentation, some.labeled[:1])
    predicted = np.full((len(some.labels), len(some.class_names)), np.nan, np.float32)
    heads = []
    for seed, file in weight_files(folder, config).items():
        head = Head(model, load_all(file, like))
        held = held_fold(seed, some.folds) if some.folds else None
        if held is None:
            heads.append(head)
        else:
            predicted[some.fold == held] = log_probabilities([head], some.labeled[some.fold == held])
    return predicted, heads


def settings(method: str, some: Encoded, request: Request) -> Config:
    """The settings of a run of heads."""
    preset = configs.load(f"features_{method}")
    stage, steps = preset.stages[0], request.steps or STEPS
    how = stage.method
    if isinstance(how, MPL):
        balanced = dataclasses.replace(how.feedback, estimator="soft", scale="balanced")
        how = dataclasses.replace(how, labels="soft", feedback=balanced)
    return Config(
        seed=request.seed,
        data=dataclasses.replace(some.settings, folds=some.folds),
        model=preset.model,
        stages=(dataclasses.replace(stage, method=how, steps=steps),),
        log_every_steps=max(1, steps // 10),
    )
