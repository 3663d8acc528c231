"""The rung that finetunes the pretrained encoder itself on the labels (recipe/finetuned.py), in two runs.

finetuned-start   logistic regression, without the first fold, on the encoder
finetuned-check   finetunes it, without the first fold, whose pictures validate what comes out
finetuned         goes on from there with all labels

So nothing is trained for validation alone, and the model that is kept knows all labels. The first run also measures how
long a step takes: the second one fills what is left of the rung's time. If the val part is large enough, there are no
folds, and the second run alone starts from the rung `linear`.
"""

import time

import numpy as np

from metapl import config as configs
from metapl import recipe
from metapl.config import Config
from metapl.fit import classical, listing, network
from metapl.fit import rung as rungs
from metapl.fit.climb import Climb
from metapl.fit.clock import in_words
from metapl.fit.composed import LINEAR_STAGES, write_composed
from metapl.fit.heads import log_probabilities
from metapl.fit.rung import Predictions
from metapl.fit.train import train
from metapl.recipe import finetuned as settings

START, CHECK, FINETUNED = "finetuned-start", "finetuned-check", "finetuned"
LISTS = {CHECK: network.LIST, FINETUNED: "finetuned-list"}
MANY = 50  # labels a class: with ten it gained nothing on a development draw, with a hundred it gained much
PLANNED, SHARE = 0.65, 0.8  # of the time that is left: what is planned with, and after which it is left out
FIRST_RUN = 0.5  # of the rung's time
WORK = 4.0  # encodings of a picture that learning from it takes as long as, about
COMPILING_S = 40.0  # of a run, about
LEAST_STEPS, MOST_STEPS = 100, 3000  # of a run


def is_promising(climb: Climb) -> bool:
    """Whether there is a pretrained network, and enough labels to finetune it; more time would not change that."""
    some = climb.features
    kept = some.labels[~network.held_out(some)]
    return (
        some.settings.encoder not in ("patches", "pixels")
        and len(some.labels) >= MANY * len(some.class_names)
        and len(np.unique(kept)) == len(some.class_names)
    )


def why_no_time(climb: Climb) -> str:
    """Why there is too little time for it; empty if there is enough, or it has begun."""
    if rungs.finished(climb.out, FINETUNED) or climb.plan.get(f"{FINETUNED}_steps") or climb.request.steps:
        return ""
    needed_s = 2 * (LEAST_STEPS * step_s(climb) + COMPILING_S) + judging_s(climb)
    if needed_s > PLANNED * climb.left_s:
        return f"finetuning the pretrained network would have taken at least {in_words(needed_s)}"
    return ""


def step_s(climb: Climb) -> float:
    """How long a step takes: what was measured, or an estimate from the time of encoding."""
    return float(climb.plan.get("finetune_step_s") or WORK * settings.BATCH * climb.plan.get("view_s"))


def judging_s(climb: Climb) -> float:
    """How long it takes to predict the pictures that judge the network; a run also predicts the test part."""
    some = climb.features
    pictures = len(some.labels) + len(some.val) + 2 * len(some.test) + len(some.judged)
    return float(pictures * climb.plan.get("view_s"))


def train_rung(climb: Climb, ends: float) -> Predictions:
    """Train both runs, and predict the pictures that judge the rung, so that all is done at this moment."""
    out, some = climb.out, climb.features
    ends -= judging_s(climb)
    if not some.folds:
        train_run(climb, FINETUNED, "linear", ends - time.monotonic())
        return network.predict(out / FINETUNED, some)
    write_start(climb)
    began, whole = time.monotonic(), not (out / CHECK).exists()
    steps = train_run(climb, CHECK, START, FIRST_RUN * (ends - began))
    if whole:  # a part of a run, after a kill, would say nothing about a step
        climb.plan.decide("finetune_step_s", (time.monotonic() - began) / steps)
    train_run(climb, FINETUNED, CHECK, ends - time.monotonic())
    return network.predict(out / FINETUNED, some, out / CHECK)


def train_run(climb: Climb, name: str, start: str, seconds: float) -> int:
    """Train a run from the weights of another one; return its number of steps."""
    possible = int((seconds - COMPILING_S) / step_s(climb))
    steps = climb.plan.decide(f"{name}_steps", climb.request.steps or min(max(possible, LEAST_STEPS), MOST_STEPS))
    network.write_list(climb.out, climb.features, LISTS[name], all_labels=name == FINETUNED)
    train(climb.out / name, run_settings(climb, name, start, steps), climb.console)
    return int(steps)


def run_settings(climb: Climb, name: str, start: str, steps: int) -> Config:
    """The settings of a run."""
    size = climb.features.settings.size
    source = listing.settings(climb.out / LISTS[name], size)
    assert source is not None
    begun = configs.load(str(climb.out / start / "config.toml"))
    views = recipe.augmentation(size, climb.request.mirror, begun.augmentation.mean, begun.augmentation.std)
    weights = str((climb.out / start / "weights.safetensors").absolute())
    return settings.settings(recipe.base(source, begun.model, climb.request.seed, views, weights), steps)


def write_start(climb: Climb) -> None:
    """Write the network that the first run starts from: logistic regression that has not seen the first fold."""
    some, kept = climb.features, ~network.held_out(climb.features)
    head = classical.logistic(some.labeled[kept], some.labels[kept], len(some.class_names), climb.plan.get("c"))
    test = log_probabilities([head], some.test)
    write_composed(climb.out, START, some, [head], test, LINEAR_STAGES, climb.request.seed)
