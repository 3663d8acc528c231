"""The rung that finetunes the pretrained encoder itself (recipe/finetuned.py), in two runs.

finetuned-start   a linear head on the encoder, trained without the first fold
finetuned-check   finetunes both, without the first fold
finetuned-all     goes on from there with all labels
finetuned         the rung: its weights are the mean

    θ = (1 − m) θ_0 + m θ_1                     (WiSE-FT, Wortsman et al., 2022)

of the network before, a rung of heads (θ_0), and finetuned-all (θ_1): m is MOVED, or with many labels MOVED_WITH_MANY.
Where the pretrained network knows the classes already, it loses by finetuning, but not half of the way.

If there are unlabelled pictures, the mean gets a new head: aligned self-training on its own features, as the rung
`aligned` has it on those of the frozen network. And the runs learn from these pictures, too, with labels that the model
before them gives (Noisy Student, Xie et al., 2020), scaled to the shares that the classes have among the labels of
`aligned`:

| labelled pictures | rung of heads that it starts from | labels of unlabelled pictures: first run, second run      |
|-------------------|-----------------------------------|-----------------------------------------------------------|
| MANY a class      | linear                            | none, by the mean after the first run with its new head   |
| fewer             | aligned                           | by that head, by the mean after the first run in this way |

With many labels, a network that has learnt them alone gives better labels than a head on the frozen network. If there
are several pretrained networks (joint.py), the labels are by a head on all of them and the network named here.

The mean of finetuned-start and finetuned-check, and its new head, have not seen the first fold, whose pictures validate
them. So nothing is trained for validation alone, and the model that is kept knows all labels. The first run also
measures how long a step takes: the second one fills what is left of the rung's time, and if there is none left, the
rung has the weights of the first one, and a head that has seen all labels. If the val part is large enough,
there are no folds, and both runs know all labels.
"""

import dataclasses
import time
from collections.abc import Callable
from functools import partial

import jax
import numpy as np

from metapl import config as configs
from metapl import recipe
from metapl.config import Config
from metapl.evaluate import predictor
from metapl.evaluate.predictor import Predictor
from metapl.fit import (
    classical,
    companions,
    encoded,
    finetune_memory,
    finetune_time,
    joint_space,
    kept_features,
    listing,
    network,
)
from metapl.fit import rung as rungs
from metapl.fit.climb import Climb
from metapl.fit.clock import in_words
from metapl.fit.composed import LINEAR_STAGES, write_composed
from metapl.fit.encoded import Encoded, Labels, Rows, Values
from metapl.fit.finetune_time import COMPILING_S, LEAST_COMPILING_S, LEAST_LAST_STEPS, LEAST_STEPS, TESTED, Size
from metapl.fit.heads import kept as kept_heads
from metapl.fit.heads import log_probabilities
from metapl.fit.joint_space import Part, Space
from metapl.fit.kept_features import RoleFeatures
from metapl.fit.rung import Logits, Predictions
from metapl.fit.train import train
from metapl.models.assemble import Encoder, Head, taken_apart
from metapl.models.heads import Heads
from metapl.recipe import aligned
from metapl.recipe import finetuned as settings
from metapl.recipe.finetuned import View

ALIGNED, JOINT = "aligned", "joint"  # the rungs
WEIGHT = 1.0  # of the finetuned network beside a pretrained one, in one space
START, CHECK, ALL, FINETUNED = "finetuned-start", "finetuned-check", "finetuned-all", "finetuned"
LISTS = {CHECK: network.LIST, ALL: "finetuned-list"}
MOVED, MOVED_WITH_MANY = 0.5, 0.75  # how far the weights go from the network before to the finetuned one
MANY = 50  # labels a class
LEAST = 5  # labels a class: with fewer, labels that a model gives are often wrong
PLANNED, SHARE = 0.8, 0.92  # of the time that is left: what is planned with, and after which it is left out
FIRST_RUN = 0.5  # of the rung's time
MOST_STEPS = 3000  # of a run


def is_promising(climb: Climb) -> bool:
    """Whether there is a pretrained network, and enough labels to finetune it; more time would not change that."""
    some = climb.features
    kept = some.labels[~network.held_out(some)]
    return (
        some.settings.encoder not in ("patches", "pixels")
        and len(some.labels) >= (LEAST if learns_unlabeled(climb) else MANY) * len(some.class_names)
        and len(np.unique(kept)) == len(some.class_names)
    )


def has_many_labels(some: Encoded) -> bool:
    """Whether the labels alone are enough for the first run."""
    return len(some.labels) >= MANY * len(some.class_names)


def learns_unlabeled(climb: Climb) -> bool:
    """Whether the runs learn from unlabelled pictures: there are some, and a head that can label them."""
    return climb.has_unlabeled and rungs.finished(climb.out, ALIGNED)


def has_begun(climb: Climb) -> bool:
    """Whether it is finished, or an earlier session has begun it."""
    return rungs.finished(climb.out, FINETUNED) or bool(climb.plan.get("finetune_batch"))


def why_no_memory(climb: Climb) -> str:
    """Why there is too little memory for it; empty if there is enough, or it has begun."""
    return "" if has_begun(climb) else finetune_memory.lacking(started_from(climb), settings.SMALL_BATCH)


def started_from(climb: Climb) -> Predictor:
    """The network before finetuning."""
    return predictor.load(climb.out / head_rung(climb))


def why_no_time(climb: Climb) -> str:
    """Why there is too little time for it; empty if there is enough, or it has begun."""
    if has_begun(climb):
        return ""
    if climb.request.steps:
        needed_s = 2 * climb.request.steps * finetune_time.step_s(climb, settings.SMALL_BATCH)
        return (
            f"{2 * climb.request.steps} steps would have taken {in_words(needed_s)}" if needed_s > climb.left_s else ""
        )
    smallest = finetune_time.smallest(climb, settings.SMALL_BATCH)
    needed_s = finetune_time.least_s(climb, smallest, learns_unlabeled(climb), runs=1)
    if needed_s > PLANNED * climb.left_s:
        return f"finetuning the pretrained network would have taken at least {in_words(needed_s)}"
    return ""


def settle(climb: Climb, left_s: float) -> None:
    """Decide how large batches are, and how many unlabelled pictures are predicted, once; from now on it holds."""
    if has_begun(climb):
        return
    batches: tuple[int, ...] = (settings.BATCH, settings.SMALL_BATCH)
    if finetune_memory.lacking(started_from(climb), settings.BATCH):
        batches = batches[1:]
    if climb.request.steps:
        size = Size(batches[0], finetune_time.most_judged(climb.features))
    else:
        found = finetune_time.choose(climb, batches, learns_unlabeled(climb), left_s)
        size = found or finetune_time.smallest(climb, batches[-1])
    climb.encoded = encoded.judging(climb.features, climb.plan.decide("judged", size.judged))
    climb.plan.decide("finetune_batch", size.batch)


def train_rung(climb: Climb, ends: float) -> Predictions:
    """Train both runs, write the rung, and predict the pictures that judge it, so that all is done at this moment."""
    settle(climb, ends - time.monotonic())
    out, some = climb.out, climb.features
    step_s = finetune_time.step_s(climb, climb.plan.get("finetune_batch"))
    judging_s = finetune_time.judging_s(climb, len(some.judged), learns_unlabeled(climb))
    labels = write_start(climb)
    began, whole = time.monotonic(), not (out / CHECK).exists()
    possible = steps_in(FIRST_RUN * (ends - judging_s - began), step_s, LEAST_STEPS)
    steps = train_run(climb, CHECK, START, possible, lambda: labels)
    if whole:  # a part of a run, after a kill, would say nothing about a step
        climb.plan.decide("finetune_step_s", measured_step_s(time.monotonic() - began, steps))
    first = after_first_run(climb)
    step_s = climb.plan.get("finetune_step_s") or step_s
    left_s = ends - finetune_time.judging_s(climb, len(some.judged), learns=False) - time.monotonic()
    if last_run(climb, left_s, step_s) == ALL:
        given = labels_by(climb, first.unlabeled) if learns_unlabeled(climb) else None
        train_run(climb, ALL, CHECK, steps_in(left_s, step_s, LEAST_LAST_STEPS), lambda: given)
    model = whole_mean(climb)
    seen = features_of_rung(climb, model)
    head = head_on(climb, model, seen.labeled, some.labels, seen.unlabeled)
    predictions = predicted(some, head, seen, first.validation)
    write_rung(climb, FINETUNED, model, head, predictions)
    return predictions


def last_run(climb: Climb, left_s: float, step_s: float) -> str:
    """The run whose weights the rung has, decided once: the first one if there is no time for the second."""
    in_time = bool(climb.request.steps) or COMPILING_S + LEAST_LAST_STEPS * step_s <= left_s
    return str(climb.plan.decide("finetune_last", ALL if in_time else CHECK))


def whole_mean(climb: Climb) -> Predictor:
    """The network of the rung."""
    return mean_of(climb, head_rung(climb), climb.plan.get("finetune_last"))


def features_of_rung(climb: Climb, model: Predictor) -> RoleFeatures:
    """The features by the network of the rung."""
    if climb.plan.get("finetune_last") != CHECK:  # none: a fit of an earlier version, which always had both runs
        return kept_features.of_run(climb, ALL, model, climb.features.judged_pictures)
    seen = of_judged(climb, features_after_first_run(climb, model))
    return seen._replace(test=kept_features.of_test(climb, CHECK, model))


def after_first_run(climb: Climb) -> Predictions:
    """What the model predicts for the pictures that validate it; and for those that the second run learns from.

    The latter is by a head on all networks if there are several.
    Kept beside the run: it is asked for again after a kill.
    """
    folder, some = climb.out / CHECK, climb.features
    if not rungs.has_predictions(folder):
        model = mean_of(climb, START, CHECK)
        seen = features_after_first_run(climb, model)
        head, validation = validated(some, of_judged(climb, seen), partial(head_on, climb, model))
        predicted = log_probabilities([head], seen.unlabeled)
        if learns_unlabeled(climb) and has_companions(climb):
            predicted = predicted_jointly(climb, joined(frozen_parts(climb, some.learnt, test=False), model, seen))
        rungs.write_predictions(folder, Predictions(validation, validation[:0], predicted))
    return rungs.read_predictions(folder)


def has_companions(climb: Climb) -> bool:
    """Whether there are features by other pretrained networks; none are added once finetuning has begun."""
    there = rungs.finished(climb.out, JOINT)
    if there:
        companions.encode_all(climb)
    return there


def frozen_parts(climb: Climb, rows: Rows, test: bool = True) -> list[Part]:
    """The pretrained networks with their features, of these rows of the unlabelled pictures that are used."""
    parts = companions.parts(climb) if has_companions(climb) else companions.parts(climb)[:1]
    return [companions.of_pictures(part, rows, test) for part in parts]


def joined(before: list[Part], model: Predictor, seen: RoleFeatures) -> Space:
    """One space for the pretrained networks and a finetuned one."""
    return joint_space.join([*before, Part(network_parts(model)[0], seen, WEIGHT)])


def predicted_jointly(climb: Climb, space: Space) -> Logits:
    """What a head that has not seen the first fold predicts for unlabelled pictures, by several networks."""
    some, kept, z = climb.features, ~network.held_out(climb.features), space.seen
    y, classes = some.labels[kept], len(some.class_names)
    return log_probabilities([classical.aligned_training(z.labeled[kept], y, z.unlabeled, classes, 0.0)], z.unlabeled)


def features_after_first_run(climb: Climb, model: Predictor) -> RoleFeatures:
    """The features by the network after the first run, which labels the pictures that the second run learns."""
    some = climb.features
    rows = some.used[some.learnt] if learns_unlabeled(climb) else some.used[:0]
    return kept_features.of_run(climb, CHECK, model, rows, test=False)


def of_judged(climb: Climb, seen: RoleFeatures) -> RoleFeatures:
    """Of the features after the first run, keep the unlabelled pictures that are judged."""
    some = climb.features
    return seen._replace(unlabeled=seen.unlabeled[np.isin(some.learnt, some.judged)]) if len(seen.unlabeled) else seen


def validated(
    some: Encoded, seen: RoleFeatures, train: Callable[[Values, Labels, Values], Head]
) -> tuple[Head, Logits]:
    """A head that has not seen the first fold, and what it predicts for the pictures that validate it.

    `train` makes a head from the features and labels of labelled pictures, and the features of unlabelled ones.
    """
    held = network.held_out(some)
    head = train(seen.labeled[~held], some.labels[~held], seen.unlabeled)
    folds = np.full((len(held), len(some.class_names)), np.nan, np.float32)
    folds[held] = log_probabilities([head], seen.labeled[held])
    return head, some.validation(folds, log_probabilities([head], seen.val))


def predicted(some: Encoded, head: Head, seen: RoleFeatures, validation: Logits) -> Predictions:
    """What a head that has seen all labels predicts; `validation` is by one that has not, if there are folds."""
    return Predictions(
        validation if some.folds else log_probabilities([head], seen.val),
        log_probabilities([head], seen.test),
        log_probabilities([head], seen.unlabeled),
    )


def head_on(climb: Climb, model: Predictor, labeled: Values, labels: Labels, unlabeled: Values) -> Head:
    """The head on a network's features: a new one if unlabelled pictures are learnt from, else its own."""
    if learns_unlabeled(climb):
        return classical.aligned_training(labeled, labels, unlabeled, len(climb.features.class_names), 0.0)
    return network_parts(model)[1]


def steps_in(seconds: float, step_s: float, least: int) -> int:
    """How many steps a run has in this time."""
    return min(max(int((seconds - COMPILING_S) / step_s), least), MOST_STEPS)


def measured_step_s(seconds: float, steps: int) -> float:
    """How long a step of a finished run took at most: compiling may have taken longer than assumed here."""
    return max(seconds - LEAST_COMPILING_S, seconds / 2) / steps


def mean_of(climb: Climb, start: str, end: str) -> Predictor:
    """θ: the network between the one before and the finetuned one."""
    m = MOVED_WITH_MANY if has_many_labels(climb.features) else MOVED
    before, after = predictor.load(climb.out / start), predictor.load(climb.out / end)
    mean = jax.tree.map(lambda left, right: (1 - m) * left + m * right, before.weights, after.weights)
    return dataclasses.replace(after, weights=mean)


def write_rung(climb: Climb, name: str, model: Predictor, head: Head, predictions: Predictions) -> None:
    """Write the run of the network that was made of two others, with this head."""
    encoder, stages, seed = network_parts(model)[0], model.config.stages, climb.request.seed
    write_composed(climb.out, name, climb.features, [head], predictions.test, stages, seed, encoder)


def network_parts(model: Predictor) -> tuple[Encoder, Head]:
    """The encoder of a finetuned network, and its own head."""
    heads, view = model.config.model, model.config.augmentation
    assert isinstance(heads, Heads)
    plain = dataclasses.replace(heads, frozen_norms=False)  # it concerns training alone
    return taken_apart(plain, model.weights, view.mean, view.std)


def head_rung(climb: Climb) -> str:
    """The rung of heads that the network starts from."""
    return ALIGNED if learns_unlabeled(climb) and not has_many_labels(climb.features) else "linear"


def train_run(climb: Climb, name: str, start: str, possible: int, given: Callable[[], Labels | None]) -> int:
    """Train a run from the weights of another one, with labels `given` to unlabelled pictures; return its steps."""
    steps = climb.plan.decide(f"{name}_steps", climb.request.steps or possible)
    network.write_list(climb.out, climb.features, LISTS[name], name == ALL, given, TESTED)
    learns_given = learns_unlabeled(climb) and (name == ALL or head_rung(climb) == ALIGNED)
    view: View = "strong" if learns_given else "weak"
    base = base_settings(climb, LISTS[name], start)
    train(climb.out / name, settings.settings(base, steps, view, climb.plan.get("finetune_batch")), climb.console)
    return int(steps)


def base_settings(climb: Climb, pictures: str, start: str) -> Config:
    """The settings of a run on this list of pictures, which starts from the weights of another run."""
    size = climb.features.settings.size
    source = listing.settings(climb.out / pictures, size)
    assert source is not None
    begun = configs.load(str(climb.out / start / "config.toml"))
    views = recipe.augmentation(size, climb.request.mirror, begun.augmentation.mean, begun.augmentation.std)
    weights = str((climb.out / start / "weights.safetensors").absolute())
    return recipe.base(source, begun.model, climb.request.seed, views, weights)


def write_start(climb: Climb) -> Labels | None:
    """Write the network that the first run starts from; return the labels that the run learns for others.

    Its head has not seen the first fold.
    """
    some, kept = climb.features, ~network.held_out(climb.features)
    x, y, classes = some.labeled[kept], some.labels[kept], len(some.class_names)
    given = None
    if head_rung(climb) == ALIGNED:
        head = classical.aligned_training(x, y, some.unlabeled, classes, 0.0)
        predicted = log_probabilities([head], some.unlabeled)
        if has_companions(climb):
            predicted = predicted_jointly(climb, joint_space.join(companions.parts(climb)))
        given = labels_by(climb, predicted[some.learnt])
    else:
        head = classical.logistic(x, y, classes, climb.plan.get("c"))
    write_composed(
        climb.out, START, some, [head], log_probabilities([head], some.test), LINEAR_STAGES, climb.request.seed
    )
    return given


def labels_by(climb: Climb, predicted: Logits) -> Labels:
    """The labels that a model gives to unlabelled pictures, in the shares that the rung `aligned` gives them."""
    usual = log_probabilities(kept_heads(climb.out / ALIGNED), climb.features.unlabeled).argmax(-1)
    shares = np.bincount(usual, minlength=predicted.shape[-1]) + 1.0
    return np.asarray(aligned.aligned(np.exp(predicted), shares / shares.sum()).argmax(-1), np.int32)
