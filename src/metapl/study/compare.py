"""What a study's runs say: mean ± std of each arm, and paired differences, corrected for their number.

A difference is taken seed by seed: both arms have the same labels, first weights and batches. Its 95 % interval is
Student's. The p-values of all confirmatory comparisons of a study are corrected together (Holm, 1979). Exploratory
comparisons are not corrected, and are marked as such.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.evaluate.statistics import Paired, holm, mean_and_std, p_value, paired
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
