"""The rung that goes on from the finetuned network with Meta Pseudo Labels, if there is time (recipe/finetuned.py).

finetuned_mpl-run   teacher and student start from finetuned-check: the student learns the teacher's labels alone, the
                    teacher learns from true labels, by UDA, and from the student's feedback
finetuned_mpl       the rung: the mean of finetuned-start and of the student, with a new head, as in finetuned.py

Neither network has seen the first fold, whose pictures validate the rung. So it knows a fifth fewer labels than
`finetuned`, but for its head, which is trained on all of them. A step takes as long as four or five of `finetuned`.
"""

import time
from functools import partial

from metapl.fit import finetune_memory, finetune_time, finetuned, kept_features, network
from metapl.fit import rung as rungs
from metapl.fit.climb import Climb
from metapl.fit.clock import in_words
from metapl.fit.finetune_time import COMPILING_S, TESTED
from metapl.fit.finetuned import CHECK, FINETUNED, MOST_STEPS, PLANNED, START
from metapl.fit.rung import Predictions
from metapl.fit.train import train
from metapl.recipe import finetuned as settings

NAME, RUN, LIST = "finetuned_mpl", "finetuned_mpl-run", "finetuned_mpl-list"
# Gradients of so many pictures take as long as a step: the teacher sees labelled pictures and two views of the others,
# the student one view, then the labelled ones; forward mode takes two thirds of a gradient.
PICTURES = 2 * settings.MPL_LABELED + 3 * settings.MPL_UNLABELED + 2 * settings.MPL_UNLABELED // 3
# A step takes as much memory as a gradient of so many pictures: up to 6.6 GB with EfficientNet-Lite2 at 192 pixels.
AT_ONCE = settings.MPL_LABELED + 3 * settings.MPL_UNLABELED
LEAST_STEPS = 60
COMPILINGS = 3  # times what a run of `finetuned` takes to compile


def is_promising(climb: Climb) -> bool:
    """Whether there is a finetuned network to go on from, and unlabelled pictures to label."""
    return rungs.finished(climb.out, FINETUNED) and finetuned.learns_unlabeled(climb)


def has_begun(climb: Climb) -> bool:
    """Whether it is finished, or an earlier session has begun it."""
    return rungs.finished(climb.out, NAME) or bool(climb.plan.get(f"{RUN}_steps"))


def why_no_memory(climb: Climb) -> str:
    """Why there is too little memory for it; empty if there is enough, or it has begun."""
    return "" if has_begun(climb) else finetune_memory.lacking(finetuned.started_from(climb), AT_ONCE)


def why_no_time(climb: Climb) -> str:
    """Why there is too little time for it; empty if there is enough, it has begun, or the user has chosen the steps."""
    if has_begun(climb) or climb.request.steps:
        return ""
    needed_s = LEAST_STEPS * step_s(climb) + around_s(climb)
    if needed_s > PLANNED * climb.left_s:
        return f"it would have taken at least {in_words(needed_s)}"
    return ""


def step_s(climb: Climb) -> float:
    """How long a step takes, by the steps of `finetuned` if they were measured."""
    measured_s, batch = climb.plan.get("finetune_step_s"), climb.plan.get("finetune_batch")
    each_s = measured_s / batch if measured_s else finetune_time.step_s(climb, 1)
    return float(PICTURES * each_s)


def around_s(climb: Climb) -> float:
    """How long it takes to compile the run, and to predict the pictures that judge it."""
    judging_s = finetune_time.judging_s(climb, len(climb.features.judged), finetuned.learns_unlabeled(climb))
    return COMPILINGS * COMPILING_S + judging_s


def train_rung(climb: Climb, ends: float) -> Predictions:
    """Train the run, write the rung, and predict the pictures that judge it, so that all is done at this moment."""
    some = climb.features
    possible = int((ends - time.monotonic() - around_s(climb)) / step_s(climb))
    steps = climb.plan.decide(f"{RUN}_steps", climb.request.steps or min(max(possible, LEAST_STEPS), MOST_STEPS))
    network.write_list(climb.out, some, LIST, tested=TESTED)
    base = finetuned.base_settings(climb, LIST, CHECK)
    train(climb.out / RUN, settings.mpl_settings(base, steps), climb.console)
    model = finetuned.mean_of(climb, START, RUN)
    seen = kept_features.of_run(climb, RUN, model, some.judged_pictures)
    train_head = partial(finetuned.head_on, climb, model)
    head = train_head(seen.labeled, some.labels, seen.unlabeled)
    predictions = finetuned.predicted(some, head, seen, finetuned.validated(some, seen, train_head)[1])
    finetuned.write_rung(climb, NAME, model, head, predictions)
    return predictions
