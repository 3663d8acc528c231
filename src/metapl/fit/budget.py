"""From a time to a number of steps: how many steps of both methods fit into it."""

from typing import NamedTuple

from metapl import recipe

RESERVE = 0.85  # the share of the time that is planned with
COMPILING = 6.0  # compiling everything takes about so many times as long as compiling the probe
WANTED_STEPS, MOST_STEPS, LEAST_STEPS = 1500, 10_000, 200
MOST_EPOCHS = 1000  # of the labelled pictures: more do not improve the result


class Batches(NamedTuple):
    """How many pictures one step reads."""

    labeled: int
    unlabeled: int


class Probe(NamedTuple):
    """How long the baseline takes on this machine."""

    compile_s: float
    step_s: float


def steps_within(budget_s: float, step_s: float, batches: Batches, has_unlabeled: bool) -> int:
    """How many steps of both methods fit into the budget.

    `step_s` is the time of one step of the baseline. Finetuning takes a tenth more of the baseline's steps.
    """
    return int(budget_s / (step_s * (_work_of_a_step(batches, has_unlabeled) + 0.2)))


def _work_of_a_step(batches: Batches, has_unlabeled: bool) -> float:
    """How many baseline steps take as long as one step of MPL and the baseline's own steps together.

    A backward pass is two forward passes. The teacher sees labelled pictures and two views of the unlabelled ones, the
    student sees one view, and the feedback evaluates it on the labelled ones: 3 (B + 2U) + 3U + 3B, compared with 3B.
    Work outside matrix products and convolutions adds a half (WRN-10-1, 32 and 64 pictures: 1.3 s, compared with
    0.1 s, one core).
    """
    return recipe.BASELINE + (1.5 * (2 + 3 * batches.unlabeled / batches.labeled) if has_unlabeled else 0.0)


def bounded_steps(possible: int, probe: Probe, batches: Batches, labeled: int) -> tuple[int, str]:
    """The number of steps, neither too few nor too many to be useful, and a sentence that says why."""
    enough = min(MOST_STEPS, max(WANTED_STEPS, MOST_EPOCHS * labeled // batches.labeled))
    measured = f"one step of the baseline takes {1e3 * probe.step_s:.3g} ms"
    if possible >= enough:
        return enough, f"{enough:,} steps ({measured}); more would change little, so the budget is not used up"
    if possible < LEAST_STEPS:
        return (
            LEAST_STEPS,
            f"{LEAST_STEPS} steps ({measured}): the fewest that make sense; the budget may end before them",
        )
    return possible, f"{possible:,} steps ({measured}): as many as fit into the budget"
