"""The guards: each is a small function of a run's latest numbers that says for each seed whether something is wrong."""

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


class Observation(NamedTuple):
    """What the guards see: means over the steps since the last observation; of evaluations, the latest."""

    facts: Facts
    last: bool  # is the stage over?
    numbers: Means
    before: Means  # of the previous observation in this stage; empty at the first
    best: NDArray[np.float64]  # [R] the teacher's best accuracy on labelled examples so far; 0 before there is one
    start: Means  # the last evaluations of the run's first stage, if it was supervised


def collapse(observed: Observation) -> Bad | None:
    """Half of the labelled examples' classes, or more, are hardly ever given as pseudo labels."""
    shares = observed.facts.class_shares
    if HISTOGRAM not in observed.numbers or np.count_nonzero(shares) < 2:
        return None
    return 2 * hardly_given(observed) >= np.count_nonzero(shares)


def hardly_given(observed: Observation) -> NDArray[np.int64]:
    """Return how many classes are hardly ever given: [R]."""
    shares = observed.facts.class_shares
    return np.sum((observed.numbers[HISTOGRAM] < HARDLY * shares) & (shares > 0), axis=-1)


def mask(observed: Observation) -> Bad | None:
    """Hardly any example passes the threshold."""
    rate = observed.numbers.get("mask_rate")
    return None if rate is None else rate < SELDOM


def zero_gradient(observed: Observation) -> Bad | None:
    """A number that depends on the unlabelled examples is exactly 0 at every step.

    A mean of sizes is exactly 0 only if all of them are 0; a mean of h almost never is otherwise. If hardly any example
    passes the mask, the mask's guard warns instead.
    """
    silent = [observed.numbers[name] == 0 for name in silent_names(observed)]
    if not silent:
        return None
    return np.any(silent, axis=0) & (observed.numbers.get("mask_rate", np.ones(1)) >= SELDOM)


def silent_names(observed: Observation) -> list[str]:
    """Return the numbers that must not be 0; h may be, if the feedback is switched off."""
    names = [name for name in must_move() if name != "feedback" or observed.facts.feedback]
    return [name for name in names if name in observed.numbers]


def saturated(observed: Observation) -> Bad | None:
    """h is the same whatever the labels are.

    `cosine`: |h| is at most 1; at 1 it cannot say which labels were better, and minus the baseline it is 0. The other
    estimators have no limit, but if the two gradients that they compare are parallel, every label moves the student
    along one line: only one number is left to learn. With or without a cosine (finite_difference has none), an h that
    does not change between observations carries no information either.
    """
    h, cosine = observed.numbers.get("feedback"), observed.numbers.get("feedback_cosine")
    if h is None or not observed.facts.feedback:
        return None
    bad = np.abs(cosine) >= PARALLEL if cosine is not None else np.zeros(h.shape, bool)
    if "feedback" in observed.before:
        bad |= (np.abs(h - observed.before["feedback"]) <= SAME * np.abs(h)) & (h != 0)
    return bad


def teacher(observed: Observation) -> Bad | None:
    """The teacher is worse on labelled examples than early in this stage, or than after the supervised stage."""
    accuracy = observed.numbers.get("teacher_labeled_accuracy")
    return None if accuracy is None else accuracy < observed.best - TEACHER_DROP


def student(observed: Observation) -> Bad | None:
    """The stage ends with a lower accuracy than the first, supervised stage had."""
    name = judged_by(observed)
    return observed.numbers[name] < observed.start[name] - STUDENT_DROP if observed.last and name else None


def judged_by(observed: Observation) -> str | None:
    """Return the accuracy to compare by: on validation data if there are any, else on test data."""
    names = [name for name in ("val_accuracy", "test_accuracy") if name in observed.numbers and name in observed.start]
    return names[0] if names else None


class Guard(NamedTuple):
    """A check, and what it says."""

    check: Callable[[Observation], Bad | None]  # None if the numbers do not say
    says: Callable[[Observation, Bad], str]  # what is wrong with these seeds
    advice: str  # what to try
    whole_stage: bool = False  # also warn if all of a short stage was bad


def _collapse_says(observed: Observation, bad: Bad) -> str:
    shares, given_shares = observed.facts.class_shares, observed.numbers[HISTOGRAM][bad]
    given = f"{hardly_given(observed)[bad].max()} of {np.count_nonzero(shares)} classes are hardly ever given"
    return f"the pseudo labels are of few classes only: {given}, and one gets {given_shares.max():.0%} of all labels"


def _mask_says(observed: Observation, bad: Bad) -> str:
    most = observed.numbers["mask_rate"][bad].max()
    if most == 0:
        return "no unlabelled example has passed the threshold: all of them are left out"
    return f"hardly an unlabelled example passes the threshold: {most:.2g} of them, the others are left out"


def _zero_says(observed: Observation, bad: Bad) -> str:
    names = [name for name in silent_names(observed) if (observed.numbers[name][bad] == 0).any()]
    return f"nothing is learnt from the unlabelled examples: {' and '.join(names)} exactly 0 at every step"


def _saturated_says(observed: Observation, bad: Bad) -> str:
    h, cosine = observed.numbers["feedback"], observed.numbers.get("feedback_cosine")
    if cosine is not None and (np.abs(cosine[bad]) >= PARALLEL).any():
        return f"the feedback is saturated: the cosine is {cosine[bad].mean():.3f}, whatever the labels are"
    return f"the feedback is saturated: h stays at {h[bad].mean():.4g}, whatever the labels are"


def _teacher_says(observed: Observation, bad: Bad) -> str:
    now, best = observed.numbers["teacher_labeled_accuracy"][bad].min(), observed.best[bad].max()
    return f"the teacher is worse than it was on labelled examples: {now:.1%} of them are right, after {best:.1%}"


def _student_says(observed: Observation, bad: Bad) -> str:
    name = judged_by(observed) or ""
    now, start = observed.numbers[name][bad].mean(), observed.start[name][bad].mean()
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


def means_of(reports: Sequence[tuple[int, Numbers]]) -> Means:
    """Return means over reports, weighted by their steps; of evaluations the latest, since each is of other weights."""
    names = {name: None for _, numbers in reports for name in numbers}
    means = {}
    for name in names:
        values = [(steps, numbers[name]) for steps, numbers in reports if name in numbers]
        if name.startswith(("test_", "val_")):
            means[name] = np.asarray(values[-1][1], np.float64)
        else:
            total = sum(steps for steps, _ in values)
            means[name] = np.sum([steps / total * np.asarray(mean, np.float64) for steps, mean in values], axis=0)
    return means
