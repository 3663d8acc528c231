"""What a study's runs say: mean ± std of each arm, and paired differences, corrected for their number.

A difference is taken seed by seed: both arms have the same labels, first weights and batches. Its 95 % interval is
Student's. The p-values of all confirmatory comparisons of a study are corrected together (Holm, 1979): with k of them,
the smallest is multiplied by k, the next by k − 1, and so on, and none is smaller than the one before it. Exploratory
comparisons are not corrected, and are marked as such.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from metapl.evaluate.statistics import Paired, mean_and_std, paired
from metapl.study.settings import Kind, Study

Accuracies = Mapping[tuple[str, str], NDArray[np.float64]]  # (case, arm) -> accuracy of each seed, in percent


class ArmResult(NamedTuple):
    """One cell of the table."""

    case: str
    arm: str
    mean: float
    std: float
    seeds: int


class Comparison(NamedTuple):
    """One paired difference, in percentage points."""

    case: str
    arm: str
    control: str
    kind: Kind
    difference: Paired
    p: float | None  # of a paired t-test; None with fewer than two seeds
    corrected: float | None  # by Holm, over the study's confirmatory comparisons; None for exploratory ones


def arm_results(accuracies: Accuracies) -> list[ArmResult]:
    """Mean and standard deviation of every run that is there."""
    return [ArmResult(*key, *mean_and_std(values), len(values)) for key, values in accuracies.items()]


def comparisons(study: Study, accuracies: Accuracies) -> list[Comparison]:
    """All pairs in all cases that both arms have finished."""
    found = [
        Comparison(
            case,
            pair.arm,
            pair.control,
            pair.kind,
            paired(accuracies[case, pair.arm], accuracies[case, pair.control]),
            p_value(accuracies[case, pair.arm] - accuracies[case, pair.control]),
            None,
        )
        for case in study.cases
        for pair in study.pairs
        if (case, pair.arm) in accuracies and (case, pair.control) in accuracies
    ]
    places = [i for i, one in enumerate(found) if one.kind == "confirmatory" and one.p is not None]
    for place, corrected in zip(places, holm([found[i].p or 0.0 for i in places]), strict=True):
        found[place] = found[place]._replace(corrected=corrected)
    return found


def p_value(differences: NDArray[np.float64]) -> float | None:
    """How often a mean this far from 0 occurs by chance (paired t-test); equal arms have 1."""
    if len(differences) < 2:
        return None
    if not np.any(differences):
        return 1.0
    if np.ptp(differences) == 0:
        return 0.0
    return float(stats.ttest_1samp(differences, 0.0).pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct p-values for their number."""
    order, corrected, highest = np.argsort(p_values, kind="stable"), [0.0] * len(p_values), 0.0
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, p_values[place] * (len(p_values) - rank)))
        corrected[place] = highest
    return corrected
