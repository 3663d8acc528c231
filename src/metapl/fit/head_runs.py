"""Rungs of heads: runs on the cached features, several seeds at once, through the same machinery as every run.

METHOD-heads/ has a seed for each fold, which it is not trained on: these say how good the method is. As many seeds are
trained on all labels: they are the rung's model. All train at once, in one compiled program.
"""

from pathlib import Path

import numpy as np
from rich.console import Console

from metapl.config import Config
from metapl.data.sources.features import Features
from metapl.features.folds import held_fold
from metapl.fit.encoded import Encoded
from metapl.fit.heads import log_probabilities
from metapl.fit.request import Request
from metapl.fit.rung import Logits
from metapl.fit.train import train
from metapl.models.assemble import Head
from metapl.recipe import heads as recipe

METHODS: tuple[recipe.Method, ...] = ("uda", "fixmatch", "mpl")
WORK = {"uda": 1.0, "fixmatch": 1.0, "mpl": 2.5}  # times the seconds of UDA that a method takes, about
SEEDS = 5  # without folds
FEW_STEPS, SHORT_S = 500, 600.0  # steps in a budget below so many seconds
LEAST_C = 1e-2  # with a smaller C no head is sure of any picture: thresholds then leave out all of them


def trained(out: Path, name: str, config: Config, some: Encoded, console: Console) -> tuple[Logits, list[Head]]:
    """Log-probabilities of each labelled picture by a head that was not trained on it, and heads trained on all."""
    folder, seeds = out / f"{name}-heads", 2 * some.folds or SEEDS
    train(folder, config, console, seeds)
    predicted = np.full((len(some.labels), len(some.class_names)), np.nan, np.float32)
    heads = []
    for seed, head in enumerate(recipe.of_run(folder), start=config.seed):
        held = held_fold(seed, some.folds) if some.folds else None
        if held is None:
            heads.append(head)
        else:
            predicted[some.fold == held] = log_probabilities([head], some.labeled[some.fold == held])
    return predicted, heads


def settings(method: recipe.Method, features: Features, request: Request, scale: recipe.Scale, steps: int) -> Config:
    """The settings of a run of heads."""
    return recipe.settings(method, Config(seed=request.seed, data=features), scale, steps)


def scale_of(some: Encoded, c: float) -> recipe.Scale:
    """The scale of the features, and the penalty that logistic regression with this C has, or with LEAST_C."""
    square = float(np.mean(np.sum(some.labeled**2, -1)))
    return recipe.Scale(round(max(square, 1e-6), 2), round(1 / (max(c, LEAST_C) * len(some.labels)), 6))


def steps_for(request: Request, budget_s: float) -> int:
    """How many steps the runs of heads have."""
    return request.steps or (FEW_STEPS if budget_s < SHORT_S else recipe.STEPS)
