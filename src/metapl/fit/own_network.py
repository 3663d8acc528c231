"""The rung for pictures without a pretrained network: a small one, trained from nothing, and patches beside it.

own-start.safetensors   the network before training: its stem whitens patches of the pictures (models/whitened.py)
own-given               trains it on true labels, and on those that `aligned` gives to unlabelled pictures
own-check               goes on from there, with its own labels for unlabelled pictures (recipe/own_network.py)
own-all                 goes on from there with all labels
own_network             the rung: one head on the features of the patches and of the network

    the head is aligned self-training (recipe/aligned.py) in one space (joint_space.py);
    without unlabelled pictures, that is logistic regression, and there is no own-given

own-given, own-check and the head beside it have not seen the first fold, whose pictures validate that head. So nothing
is trained for validation alone. If the val part is large enough, there are no folds, and both runs know all labels.

Before the first run some steps are measured, so that all runs fill the rung's time.
"""

import time
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from metapl import models, recipe
from metapl.config import Config
from metapl.data.sources.dataset import Role
from metapl.data.splits.select import take
from metapl.evaluate import predictor
from metapl.features import whitening
from metapl.features.encoders import encoder_of
from metapl.features.frozen import Frozen
from metapl.features.whitening import Pictures
from metapl.fit import classical, companions, finetuned, joint_space, kept_features, listing, network, probe
from metapl.fit import rung as rungs
from metapl.fit.choose import STRONG, imbalance
from metapl.fit.climb import Climb, listening
from metapl.fit.clock import in_words
from metapl.fit.composed import LINEAR_STAGES, write_composed
from metapl.fit.encoded import Labels, Rows, Values
from metapl.fit.finetune_time import TESTED
from metapl.fit.heads import log_probabilities
from metapl.fit.joint_space import Part, Space
from metapl.fit.listing import GOES_ON
from metapl.fit.rung import Predictions
from metapl.fit.train import train
from metapl.models.assemble import Encoder, Head, without_classifier
from metapl.models.heads import Heads
from metapl.recipe import own_network as settings
from metapl.schema import to_dict
from metapl.system.disk import explaining_disk_errors
from metapl.weights import save

NAME, START = "own_network", "own-start.safetensors"
GIVEN, CHECK, ALL = "own-given", "own-check", "own-all"
LISTS = {GIVEN: "own-given-list", CHECK: "own-check-list", ALL: "own-list"}
LEAST_LABELS = 5  # a class, on average: with fewer, the network learns its own mistakes
LEAST_SIDE = 3  # pixels: the stem looks at 3×3
LEAST_S, LEAST_STEPS, MOST_STEPS = 90.0, 300, 20_000  # seconds of time; steps of a run
PLANNED, SHARE = 0.8, 0.92  # of the time that is left: what is planned with, and after which it is left out
COMPILINGS = 1.3  # times what the measured steps took to compile, for each run
HEADS_S = 6.0  # times the seconds that a head on patches takes: two heads on twice the features
WHITENED = 2000  # pictures that the stem learns from
STEPS, MOMENTS = "own_network_steps", "own_network_moments"  # the decisions in plan.json


def is_promising(climb: Climb) -> bool:
    """Whether nothing is pretrained, the user wants no other network, and there are enough labels."""
    some, request = climb.features, climb.request
    kept = some.labels[~network.held_out(some)]
    return (
        some.settings.encoder == "patches"
        and some.settings.size >= LEAST_SIDE
        and (finetuned.learns_unlabeled(climb) or not climb.has_unlabeled)
        and request.network == "auto"
        and not request.init_from
        and len(some.labels) >= LEAST_LABELS * len(some.class_names)
        and len(np.unique(kept)) == len(some.class_names)
    )


def why_no_time(climb: Climb) -> str:
    """Why there is too little time for it; empty if there is enough, or it has begun."""
    if rungs.finished(climb.out, NAME) or climb.plan.get(STEPS) or climb.request.steps:
        return ""
    needed_s = LEAST_S + heads_s(climb) + reading_s(climb)
    return f"it would have taken at least {in_words(needed_s)}" if needed_s > PLANNED * climb.left_s else ""


def heads_s(climb: Climb) -> float:
    """About how long the heads take."""
    alone = rungs.read(climb.out, companions.ALIGNED if climb.has_unlabeled else companions.LINEAR)
    return HEADS_S * alone.seconds / (climb.features.folds + 1)


def reading_s(climb: Climb) -> float:
    """About how long it takes to read pictures: for the stem and the steps that are measured, for each run, and twice
    for the features by a run."""
    some = climb.features
    learnt, judged = len(some.labels) + len(some.used), len(some.val) + len(some.test)
    pictures = min(WHITENED, learnt) + (len(runs(climb)) + 1) * learnt + 2 * (learnt + judged)
    return float((climb.plan.get("read_s") or 0.0) * pictures)


def runs(climb: Climb) -> tuple[str, ...]:
    """The runs in their order; only unlabelled pictures can be given labels."""
    return (GIVEN, CHECK, ALL) if climb.has_unlabeled else (CHECK, ALL)


def train_rung(climb: Climb, ends: float) -> tuple[Predictions, str]:
    """Train all runs and both heads, write the rung, and predict the pictures that judge it; with a remark."""
    some = climb.features
    steps, given = planned_steps(climb, ends), 0

    def head(x: Values, y: Labels, unlabeled: Values) -> Head:
        return classical.aligned_training(x, y, unlabeled, len(some.class_names), 0.0)

    if GIVEN in runs(climb):
        given = settings.given_steps(steps)
        train_run(climb, GIVEN, given)
    train_run(climb, CHECK, steps)
    validation = finetuned.validated(some, space_with(climb, CHECK).seen, head)[1]
    train_run(climb, ALL, steps)
    space = space_with(climb, ALL)
    whole = head(space.seen.labeled, some.labels, space.seen.unlabeled)
    predictions = finetuned.predicted(some, whole, space.seen, validation)
    encoder, joined = space.network(whole)
    write_composed(climb.out, NAME, some, [joined], predictions.test, LINEAR_STAGES, climb.request.seed, encoder)
    return predictions, f"{given + 2 * steps:,} steps"


def planned_steps(climb: Climb, ends: float) -> int:
    """Decide how many steps each run has, once: by the user, or by measuring some."""
    if (decided := climb.plan.get(STEPS)) is not None:
        return int(decided)
    write_start(climb)
    if climb.request.steps:
        return int(climb.plan.decide(STEPS, climb.request.steps))
    network.write_list(climb.out, climb.features, LISTS[CHECK], tested=TESTED)
    config = run_settings(climb, CHECK, probe.STEPS, climb.out / START)
    began = time.monotonic()
    with listening(climb) as stop:
        pictures = probe.read(config, climb.out)
        stop.check(rungs.TITLES[NAME], GOES_ON)
        read_s = time.monotonic() - began
        measured = probe.measured(config, pictures)
        stop.check(rungs.TITLES[NAME], GOES_ON)
    around_s = COMPILINGS * measured.compile_s + read_s
    left_s = ends - time.monotonic() - heads_s(climb) - len(runs(climb)) * around_s - 2 * read_s  # for features
    work = 2 + (settings.GIVEN * settings.WORK_OF_GIVEN if GIVEN in runs(climb) else 0)
    possible = int(left_s / work / measured.step_s)
    return int(climb.plan.decide(STEPS, min(max(possible, LEAST_STEPS), MOST_STEPS)))


def train_run(climb: Climb, name: str, steps: int) -> None:
    """Train a run to its end."""
    given = partial(given_labels, climb) if name == GIVEN else lambda: None
    network.write_list(climb.out, climb.features, LISTS[name], name == ALL, given, TESTED)
    train(climb.out / name, run_settings(climb, name, steps, start_of(climb, name)), climb.console)


def start_of(climb: Climb, name: str) -> Path:
    """The weights that a run starts from: those of the run before it."""
    before = runs(climb)[: runs(climb).index(name)]
    return climb.out / before[-1] / "weights.safetensors" if before else climb.out / START


def given_labels(climb: Climb) -> Labels:
    """The labels that aligned self-training without the first fold gives to unlabelled pictures."""
    some, kept = climb.features, ~network.held_out(climb.features)
    y, classes = some.labels[kept], len(some.class_names)
    head = classical.aligned_training(some.labeled[kept], y, some.unlabeled, classes, 0.0)
    return finetuned.labels_by(climb, log_probabilities([head], some.unlabeled[some.learnt]))


def run_settings(climb: Climb, name: str, steps: int, start: Path) -> Config:
    """The settings of a run that starts from these weights."""
    some, side = climb.features, side_of(climb)
    source = listing.settings(climb.out / LISTS[name], side)
    assert source is not None
    views = recipe.augmentation(side, climb.request.mirror, *map(tuple, climb.plan.get(MOMENTS)))
    base = recipe.base(source, settings.network(side), climb.request.seed, views, str(start.absolute()))
    labeled = len(some.labels) if name == ALL else int((~network.held_out(some)).sum())
    if name == GIVEN:
        return settings.on_labels(base, steps, labeled + len(some.learnt))
    shares = np.bincount(some.labels, minlength=len(some.class_names))
    data = settings.Data(labeled, len(some.used), finetuned.has_many_labels(some), is_balanced(shares))
    return settings.settings(base, steps, data)


def is_balanced(counts: Rows) -> bool:
    """Whether no class has far more labels than another one."""
    return imbalance(counts) < STRONG


def write_start(climb: Climb) -> None:
    """Learn the stem from labelled and unlabelled pictures, draw all other weights, and write them."""
    some, side = climb.features, side_of(climb)
    some_pictures = sample(climb)
    mean, std = climb.plan.decide(MOMENTS, whitening.moments(some_pictures))
    model = settings.network(side)
    built = models.build(model, len(some.class_names))
    weights = built.init(jax.random.key(climb.request.seed), jnp.zeros((1, *some_pictures.shape[1:])))
    stem = jnp.asarray(whitening.stem(some_pictures, mean, std))
    weights = weights._replace(params=weights.params | {"stem_conv": {"kernel": stem}})
    with explaining_disk_errors(climb.out, GOES_ON):
        save(climb.out / START, weights, to_dict(model), some.class_names)


def side_of(climb: Climb) -> int:
    """The side of the pictures that the network sees, in pixels."""
    return min(climb.features.settings.size, settings.SIDE)


def sample(climb: Climb) -> Pictures:
    """Some labelled and unlabelled pictures, in the size that the network sees."""
    some, draw = climb.features, np.random.RandomState(0)
    made: list[NDArray[np.generic]] = []
    rows_of: dict[Role, Rows] = {"labeled": np.arange(len(some.labels)), "unlabeled": some.used}
    for role, rows in rows_of.items():
        chosen = np.sort(draw.permutation(rows)[: WHITENED // 2])
        images = take(some.prepared.pictures.images(role), chosen)
        made += list(network.batches(images, side_of(climb), len(chosen)))
    return np.concatenate(made).astype(np.uint8)


def space_with(climb: Climb, run: str) -> Space:
    """One space for the patches and the network of this run."""
    some = climb.features
    encoder = encoder_of_run(climb, run)
    seen = kept_features.of_encoder(climb, run, Frozen(encoder), some.judged_pictures)
    return joint_space.join([Part(encoder_of(some.prepared.encode), kept_features.frozen(some)), Part(encoder, seen)])


def encoder_of_run(climb: Climb, run: str) -> Encoder:
    """The network of a run without its classifier, for pictures of the fit's size."""
    model = predictor.load(climb.out / run)
    heads = Heads(model.config.model, side_of(climb), colour=False, mirror=climb.request.mirror)
    view = model.config.augmentation
    return without_classifier(heads, model.weights, view.mean, view.std)
