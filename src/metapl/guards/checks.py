"""The guards themselves: each a small function of a look at the numbers, which says for each seed whether it is bad."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.guards.facts import Facts
from metapl.metrics import HISTOGRAM, must_move
from metapl.types import Numbers

HARDLY = 0.1  # a class is hardly given if its share is below this part of its share among the labelled examples
PARALLEL = 0.99  # |cosine| from which two gradients count as parallel
SELDOM = 1e-3  # share of the unlabelled examples below which so few pass a threshold that nothing is learnt from them
SAME = 1e-6  # relative difference up to which two means count as the same
TEACHER_DROP = 0.1  # accuracy that a teacher must lose; its labelled examples are few, so this is few of them
STUDENT_DROP = 0.02  # accuracy that a student must lack: less than that is chance on most test sets

Means = Mapping[str, NDArray[np.float64]]  # of several reports
Bad = NDArray[np.bool_]  # [R]


class Look(NamedTuple):
    """What there is to see: means over the steps since the last look; of evaluations, the latest."""

    facts: Facts
    last: bool  # is the stage over?
    numbers: Means
    before: Means  # the look before in this stage; empty at the first
    best: NDArray[np.float64]  # [R] the teacher's best accuracy on labelled examples so far; 0 before there is one
    start: Means  # the evaluations that the run's first stage ended with, if it was supervised


def collapse(look: Look) -> Bad | None:
    """Pseudo labels gone to few classes: of those that labelled examples have, half or more are hardly given."""
    shares, found = look.facts.class_shares, look.numbers.get(HISTOGRAM)
    if found is None or np.count_nonzero(shares) < 2:
        return None
    return 2 * hardly_given(look) >= np.count_nonzero(shares)


def hardly_given(look: Look) -> NDArray[np.int64]:
    """How many classes: [R]."""
    shares = look.facts.class_shares
    return np.sum((look.numbers[HISTOGRAM] < HARDLY * shares) & (shares > 0), axis=-1)


def mask(look: Look) -> Bad | None:
    """Hardly an example passes the threshold: one in thousands is learnt from as little as none."""
    found = look.numbers.get("mask_rate")
    return None if found is None else found < SELDOM


def zero_gradient(look: Look) -> Bad | None:
    """Something that the unlabelled examples should move is exactly 0 at every step.

    Exactly: a mean of sizes is 0 only if all of them are, and a mean of h as good as never else. Where hardly an
    example passes the mask, that guard says so.
    """
    silent = [look.numbers[name] == 0 for name in silent_names(look)]
    if not silent:
        return None
    return np.any(silent, axis=0) & (look.numbers.get("mask_rate", np.ones(1)) >= SELDOM)


def silent_names(look: Look) -> list[str]:
    """Return the numbers that must not be 0; h may be, if the feedback is switched off."""
    names = [name for name in must_move() if name != "feedback" or look.facts.feedback]
    return [name for name in names if name in look.numbers]


def saturated(look: Look) -> Bad | None:
    """h is the same whatever the labels are.

    `cosine`: |h| has its limit at 1; there it cannot say which labels were better, and less a baseline it is 0. The
    other estimators have no limit, but where the two gradients that they compare are parallel, every label that the
    student is given moves it along one line: one number is left to learn. Where there is no cosine (finite_difference),
    and beside it, an h that does not change from look to look says as little.
    """
    h, cosine = look.numbers.get("feedback"), look.numbers.get("feedback_cosine")
    if h is None or not look.facts.feedback:
        return None
    bad = np.abs(cosine) >= PARALLEL if cosine is not None else np.zeros(h.shape, bool)
    if "feedback" in look.before:
        bad |= (np.abs(h - look.before["feedback"]) <= SAME * np.abs(h)) & (h != 0)
    return bad


def teacher(look: Look) -> Bad | None:
    """The teacher has lost what it knew of the labelled examples: early in this stage, or from a supervised one."""
    found = look.numbers.get("teacher_labeled_accuracy")
    return None if found is None else found < look.best - TEACHER_DROP


def student(look: Look) -> Bad | None:
    """The stage's weights are evaluated as worse than those that the first, supervised stage ended with."""
    name = judged_by(look)
    return look.numbers[name] < look.start[name] - STUDENT_DROP if look.last and name else None


def judged_by(look: Look) -> str | None:
    """Validation data, where there are any."""
    names = [name for name in ("val_accuracy", "test_accuracy") if name in look.numbers and name in look.start]
    return names[0] if names else None


class Guard(NamedTuple):
    """A check and its words."""

    check: Callable[[Look], Bad | None]  # None where the numbers do not say
    says: Callable[[Look, Bad], str]  # what is wrong with the seeds that are bad
    advice: str  # what to try
    whole_stage: bool = False  # a stage that was bad from end to end is enough, however short


def _collapse_says(look: Look, bad: Bad) -> str:
    shares, found = look.facts.class_shares, look.numbers[HISTOGRAM][bad]
    given = f"{hardly_given(look)[bad].max()} of {np.count_nonzero(shares)} classes are hardly ever given"
    return f"the pseudo labels have gone to few classes: {given}, and one gets {found.max():.0%} of all labels"


def _mask_says(look: Look, bad: Bad) -> str:
    most = look.numbers["mask_rate"][bad].max()
    if most == 0:
        return "no unlabelled example has passed the threshold: all of them are left out"
    return f"hardly an unlabelled example passes the threshold: {most:.2g} of them, the others are left out"


def _zero_says(look: Look, bad: Bad) -> str:
    names = [name for name in silent_names(look) if (look.numbers[name][bad] == 0).any()]
    return f"nothing is learnt from the unlabelled examples: {' and '.join(names)} exactly 0 at every step"


def _saturated_says(look: Look, bad: Bad) -> str:
    h, cosine = look.numbers["feedback"], look.numbers.get("feedback_cosine")
    if cosine is not None and (np.abs(cosine[bad]) >= PARALLEL).any():
        return f"the feedback is saturated: the cosine is {cosine[bad].mean():.3f}, whatever the labels are"
    return f"the feedback is saturated: h stays at {h[bad].mean():.4g}, whatever the labels are"


def _teacher_says(look: Look, bad: Bad) -> str:
    now, best = look.numbers["teacher_labeled_accuracy"][bad].min(), look.best[bad].max()
    return f"the teacher is worse than it was on labelled examples: {now:.1%} of them are right, after {best:.1%}"


def _student_says(look: Look, bad: Bad) -> str:
    name = judged_by(look) or ""
    now, start = look.numbers[name][bad].mean(), look.start[name][bad].mean()
    return f"the stage ends worse than the supervised stage before it: {name} {now:.1%}, after {start:.1%}"


GUARDS: dict[str, Guard] = {
    "collapse": Guard(
        collapse,
        _collapse_says,
        "check that the unlabelled examples have all the classes; then try a lower weight or a higher temperature of "
        "the consistency term, a higher threshold, more labelled examples or a lower learning rate",
    ),
    "mask": Guard(
        mask,
        _mask_says,
        "a lower threshold, a lower temperature, less label smoothing, or more steps before the unlabelled examples "
        "count (ramp_steps)",
        whole_stage=True,
    ),
    "zero_gradient": Guard(
        zero_gradient,
        _zero_says,
        "look whether the labels are already certain (a lower learning rate, label smoothing), the student's learning "
        "rate is above 0, and the two views differ",
        whole_stage=True,
    ),
    "saturated": Guard(
        saturated,
        _saturated_says,
        "a lower learning rate of the student, label smoothing, a larger unlabelled batch, or another "
        "feedback.estimator (per_example tells examples apart)",
    ),
    "teacher": Guard(
        teacher,
        _teacher_says,
        "a lower feedback.weight or consistency.weight, a lower learning rate of the teacher, clip_norm, or a "
        "supervised stage before this one",
    ),
    "student": Guard(
        student,
        _student_says,
        "look whether the unlabelled examples are like the labelled ones (metapl data check), train longer, or take "
        "the supervised result: here the unlabelled examples do not help",
        whole_stage=True,
    ),
}


def together(looks: Sequence[tuple[int, Numbers]]) -> Means:
    """Mean over reports, weighted by their steps; of evaluations the latest, since they are of single weights."""
    names = {name: None for _, numbers in looks for name in numbers}
    means = {}
    for name in names:
        own = [(steps, numbers[name]) for steps, numbers in looks if name in numbers]
        if name.startswith(("test_", "val_")):
            means[name] = np.asarray(own[-1][1], np.float64)
        else:
            total = sum(steps for steps, _ in own)
            means[name] = np.sum([steps / total * np.asarray(values, np.float64) for steps, values in own], axis=0)
    return means
