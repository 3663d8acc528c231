"""How much of finetuning fits into the time that is left: how large batches are, and how many unlabelled pictures.

A rung of finetuning (finetuned.py) takes, at least,

    T(B, J) = 2 (LEAST_STEPS s(B) + COMPILING_S) + v n(J)

Taken is the first of these that fits (T ≤ the time that is left):

    1. large batches; the runs learn from all unlabelled pictures that are used
    2. small batches, and the same pictures
    3. small batches; the runs learn from J unlabelled pictures, as many as fit, but at least LEAST_JUDGED

If none fits, but one run with LEAST_JUDGED pictures does, that is tried.

| symbol | name                                                                                                  |
|--------|-------------------------------------------------------------------------------------------------------|
| B      | batch                                                                                                 |
| J      | judged: unlabelled pictures on whose features the new head is trained                                 |
| s(B)   | step_s                                                                                                |
| v      | view_s: encoding a picture                                                                            |
| n(J)   | the pictures that validate and test the runs and the rung, J, and those that the runs learn from      |
"""

from typing import NamedTuple

from metapl.fit.climb import Climb
from metapl.fit.encoded import MOST_JUDGED, Encoded

WORK = 7.0  # encodings of a picture that learning from it takes as long as: 3.5 to 7, the slower memory is the more
COMPILING_S, LEAST_COMPILING_S = 60.0, 20.0  # of a run, about: 20 on two idle cores, 80 on a busy one
TESTED = 100  # pictures at most that test a run; the rung is tested on all
LEAST_STEPS, LEAST_LAST_STEPS = 40, 20  # of a run; of the second one if the first took longer than expected
LEAST_JUDGED = 1000


class Size(NamedTuple):
    """How much is finetuned with."""

    batch: int  # pictures
    judged: int  # unlabelled pictures


def choose(climb: Climb, batches: tuple[int, ...], learns: bool, left_s: float) -> Size | None:
    """Find the first size that fits; `learns`: whether the runs learn from unlabelled pictures. None if none fits."""
    most = most_judged(climb.features)
    for batch in batches:
        if least_s(climb, Size(batch, most), learns) <= left_s:
            return Size(batch, most)
    batch, least = batches[-1], min(LEAST_JUDGED, most)
    spare_s = left_s - least_s(climb, Size(batch, least), learns)
    if spare_s < 0:
        return None
    each_s = view_s(climb) * (2 if learns else 1)
    return Size(batch, min(most, least + int(spare_s / each_s)))


def smallest(climb: Climb, batch: int) -> Size:
    """The size that takes the least time."""
    return Size(batch, min(LEAST_JUDGED, most_judged(climb.features)))


def most_judged(some: Encoded) -> int:
    """J if there is time for it."""
    return min(MOST_JUDGED, len(some.used))


def least_s(climb: Climb, size: Size, learns: bool, runs: int = 2) -> float:
    """T: how long the rung takes at least, with one or both of its runs."""
    return runs * (LEAST_STEPS * step_s(climb, size.batch) + COMPILING_S) + judging_s(climb, size.judged, learns)


def step_s(climb: Climb, batch: int) -> float:
    """s: how long a step takes, estimated from the time of encoding."""
    return WORK * batch * view_s(climb)


def view_s(climb: Climb) -> float:
    """v: by all unlabelled pictures if many were encoded, else by some batches, which chance may have slowed down."""
    return float(climb.plan.get("encoded_s") or climb.plan.get("view_s"))


def judging_s(climb: Climb, judged: int, learns: bool) -> float:
    """How long it takes to predict the pictures that judge the network, and those that it labels."""
    some = climb.features
    predicted = 2 * (len(some.labels) + len(some.val)) + len(some.test) + judged
    predicted += 2 * min(len(some.test), TESTED)  # by the two runs
    if learns:
        predicted += judged if judged < most_judged(some) else len(some.used)
    return predicted * view_s(climb)
