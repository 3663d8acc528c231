"""The rung that finetunes the pretrained encoder itself (recipe/finetuned.py), in two runs.

finetuned-start   a linear head on the encoder, trained without the first fold
finetuned-check   finetunes both, without the first fold, whose pictures validate what comes out
finetuned         goes on from there with all labels

So nothing is trained for validation alone, and the model that is kept knows all labels. The first run also measures how
long a step takes: the second one fills what is left of the rung's time. If the val part is large enough, there are no
folds, and both runs know all labels.

If there are unlabelled pictures, the runs learn from them, too, with labels that the model before them gives (Noisy
Student, Xie et al., 2020), scaled to the shares that the classes have among the labels of `aligned`:

| labelled pictures   | head that the first run starts from | labels of unlabelled pictures: first run, second run |
|---------------------|-------------------------------------|------------------------------------------------------|
| MANY a class        | logistic regression                 | none, by the first run                               |
| fewer               | aligned self-training               | by that head, by the first run                       |

With many labels, a network that has learnt them alone gives better labels than a head on the frozen network.
"""

import time
from collections.abc import Callable

import numpy as np

from metapl import config as configs
from metapl import recipe
from metapl.config import Config
from metapl.fit import classical, listing, network
from metapl.fit import rung as rungs
from metapl.fit.climb import Climb
from metapl.fit.clock import in_words
from metapl.fit.composed import LINEAR_STAGES, write_composed
from metapl.fit.encoded import Encoded, Labels
from metapl.fit.heads import kept as kept_heads
from metapl.fit.heads import log_probabilities
from metapl.fit.rung import Logits, Predictions
from metapl.fit.train import train
from metapl.recipe import aligned
from metapl.recipe import finetuned as settings

ALIGNED = "aligned"  # the rung
START, CHECK, FINETUNED = "finetuned-start", "finetuned-check", "finetuned"
LISTS = {CHECK: network.LIST, FINETUNED: "finetuned-list"}
MANY = 50  # labels a class
LEAST = 5  # labels a class: with fewer, labels that a model gives are often wrong
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
        and len(some.labels) >= (LEAST if learns_unlabeled(climb) else MANY) * len(some.class_names)
        and len(np.unique(kept)) == len(some.class_names)
    )


def has_many_labels(some: Encoded) -> bool:
    """Whether the labels alone are enough for the first run."""
    return len(some.labels) >= MANY * len(some.class_names)


def learns_unlabeled(climb: Climb) -> bool:
    """Whether the runs learn from unlabelled pictures: there are some, and a head that can label them."""
    return climb.has_unlabeled and rungs.finished(climb.out, ALIGNED)


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
    start = write_start(climb)
    began, whole = time.monotonic(), not (out / CHECK).exists()
    steps = train_run(climb, CHECK, START, FIRST_RUN * (ends - began), lambda: start)
    if whole:  # a part of a run, after a kill, would say nothing about a step
        climb.plan.decide("finetune_step_s", (time.monotonic() - began) / steps)

    def by_the_first_run() -> Labels | None:
        return labels_by(climb, network.predicted(out / CHECK, some)) if learns_unlabeled(climb) else None

    train_run(climb, FINETUNED, CHECK, ends - time.monotonic(), by_the_first_run)
    return network.predict(out / FINETUNED, some, out / CHECK if some.folds else None)


def train_run(climb: Climb, name: str, start: str, seconds: float, given: Callable[[], Labels | None]) -> int:
    """Train a run from the weights of another one, with labels `given` to unlabelled pictures; return its steps."""
    possible = int((seconds - COMPILING_S) / step_s(climb))
    steps = climb.plan.decide(f"{name}_steps", climb.request.steps or min(max(possible, LEAST_STEPS), MOST_STEPS))
    network.write_list(climb.out, climb.features, LISTS[name], name == FINETUNED, given)
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
    given = learns_unlabeled(climb) and (name == FINETUNED or not has_many_labels(climb.features))
    base = recipe.base(source, begun.model, climb.request.seed, views, weights)
    return settings.settings(base, steps, "strong" if given else "weak")


def write_start(climb: Climb) -> Labels | None:
    """Write the network that the first run starts from; return the labels that the run learns for others.

    Its head has not seen the first fold.
    """
    some, kept = climb.features, ~network.held_out(climb.features)
    x, y, classes = some.labeled[kept], some.labels[kept], len(some.class_names)
    given = None
    if has_many_labels(some) or not learns_unlabeled(climb):
        head = classical.logistic(x, y, classes, climb.plan.get("c"))
    else:
        head = classical.aligned_training(x, y, some.unlabeled, classes, 0.0)
        given = labels_by(climb, log_probabilities([head], some.unlabeled))
    write_composed(
        climb.out, START, some, [head], log_probabilities([head], some.test), LINEAR_STAGES, climb.request.seed
    )
    return given


def labels_by(climb: Climb, predicted: Logits) -> Labels:
    """The labels that a model gives to unlabelled pictures, in the shares that the rung `aligned` gives them."""
    usual = log_probabilities(kept_heads(climb.out / ALIGNED), climb.features.unlabeled).argmax(-1)
    shares = np.bincount(usual, minlength=predicted.shape[-1]) + 1.0
    return np.asarray(aligned.aligned(np.exp(predicted), shares / shares.sum()).argmax(-1), np.int32)
