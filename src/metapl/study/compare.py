"""What a study's runs say: mean ± std of each arm, and paired differences, corrected for their number.

A difference is taken seed by seed: both arms have the same labels, first weights and batches. Its 95 % interval is
Student's. The p-values of all confirmatory comparisons of a study are corrected together (Holm, 1979). Exploratory
comparisons are not corrected, and are marked as such.

A pair over cases is compared once: each case, for instance a draw of the labels, counts as one pair of means.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.evaluate.statistics import Paired, holm, mean_and_std, p_value, paired
from metapl.study.settings import Pair, Study

Accuracies = Mapping[tuple[str, str], NDArray[np.float64]]  # (case, arm) -> accuracy of each seed, in percent


class ArmResult(NamedTuple):
    """One cell of the table."""

    case: str
    arm: str
    mean: float
    std: float
    seeds: int


ALL_CASES = ""


class Comparison(NamedTuple):
    """One paired difference, in percentage points."""

    case: str  # ALL_CASES for a pair over cases
    pair: Pair
    means: tuple[float, float]  # accuracy of the control and of the arm
    difference: Paired
    p: float | None  # of a paired t-test; None with fewer than two seeds
    corrected: float | None  # by Holm, over the study's confirmatory comparisons; None for exploratory ones


def arm_results(accuracies: Accuracies) -> list[ArmResult]:
    """Mean and standard deviation of every run that is there."""
    return [ArmResult(*key, *mean_and_std(values), len(values)) for key, values in accuracies.items()]


def comparisons(study: Study, accuracies: Accuracies) -> list[Comparison]:
    """All pairs over cases, then all other pairs in all cases that both arms have finished."""
    found = [one for pair in study.pairs if pair.over == "cases" for one in _over_cases(study, pair, accuracies)]
    found += [
        _compare(case, pair, accuracies[case, pair.arm], accuracies[case, pair.control])
        for case in study.cases
        for pair in study.pairs
        if pair.over == "seeds" and (case, pair.arm) in accuracies and (case, pair.control) in accuracies
    ]
    return _corrected(found, planned_confirmatory(study))


def planned_confirmatory(study: Study) -> int:
    """How many confirmatory comparisons the study makes when all its runs are finished."""
    rows = set(study.rows())

    def count(pair: Pair) -> int:
        cases = sum((case, pair.arm) in rows and (case, pair.control) in rows for case in study.cases)
        return cases if pair.over == "seeds" else min(cases, 1)

    return sum(count(pair) for pair in study.pairs if pair.kind == "confirmatory")


def _corrected(found: list[Comparison], planned: int) -> list[Comparison]:
    """Correct for all planned comparisons: while runs are missing, p must not look smaller than it will be."""
    places = [i for i, one in enumerate(found) if one.pair.kind == "confirmatory" and one.p is not None]
    missing = max(0, planned - len(places))
    p_values = [found[i].p or 0.0 for i in places] + [1.0] * missing
    for place, corrected in zip(places, holm(p_values)[: len(places)], strict=True):
        found[place] = found[place]._replace(corrected=corrected)
    return found


def _over_cases(study: Study, pair: Pair, accuracies: Accuracies) -> list[Comparison]:
    """One comparison of the cases' means; none if no case has both arms."""
    cases = [case for case in study.cases if (case, pair.arm) in accuracies and (case, pair.control) in accuracies]
    arm, control = (np.array([np.mean(accuracies[case, name]) for case in cases]) for name in (pair.arm, pair.control))
    return [_compare(ALL_CASES, pair, arm, control)] if cases else []


def _compare(case: str, pair: Pair, arm: NDArray[np.float64], control: NDArray[np.float64]) -> Comparison:
    means = float(np.mean(control)), float(np.mean(arm))
    return Comparison(case, pair, means, paired(arm, control), p_value(arm - control), None)
