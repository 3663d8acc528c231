"""How certain accuracies and comparisons are."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy  # its stats, which take half a second, are imported when they are first used
from numpy.typing import NDArray


def mean_and_std(values: NDArray[np.float64]) -> tuple[float, float]:
    """Mean and sample standard deviation, as tables report them; the deviation of one value is 0."""
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


class Paired(NamedTuple):
    """A difference measured on the same data sets with the same seeds."""

    mean: float
    low: float | None  # ends of the 95 % interval of the mean (Student's t); None for one data set
    high: float | None
    better: int  # data sets on which the first method wins
    worse: int
    n: int


def paired(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> Paired:
    """Compare two methods data set by data set: `ours` − `theirs`."""
    difference = ours - theirs
    n, mean = len(difference), float(np.mean(difference))
    low, high = None, None
    if n > 1:
        reach = float(scipy.stats.t.ppf(0.975, n - 1)) * float(np.std(difference, ddof=1)) / n**0.5
        low, high = mean - reach, mean + reach
    return Paired(mean, low, high, int(np.sum(difference > 0)), int(np.sum(difference < 0)), n)


def p_value(differences: NDArray[np.float64]) -> float | None:
    """How often a mean this far from 0 occurs by chance (paired t-test); equal arms have 1."""
    if len(differences) < 2:
        return None
    if not np.any(differences):
        return 1.0
    if np.ptp(differences) == 0:
        return 0.0
    return float(scipy.stats.ttest_1samp(differences, 0.0).pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct p-values for their number (Holm, 1979).

    Of k p-values the smallest is multiplied by k, the next by k − 1, and so on; none becomes smaller than the one
    before it.
    """
    order, corrected, highest = np.argsort(p_values, kind="stable"), [0.0] * len(p_values), 0.0
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, p_values[place] * (len(p_values) - rank)))
        corrected[place] = highest
    return corrected


class Proportion(NamedTuple):
    """A share of right predictions, with its 95 % interval."""

    share: float
    low: float
    high: float


def wilson(right: int, n: int) -> Proportion:
    """A share and its interval by Wilson's score: it stays between 0 and 1, and is wide if n is small."""
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    interval = scipy.stats.binomtest(right, n).proportion_ci(confidence_level=0.95, method="wilson")
    return Proportion(right / n, float(interval.low), float(interval.high))


class Compared(NamedTuple):
    """Two classifiers on the same pictures."""

    difference: float  # of their accuracies
    low: float  # ends of its 95 % interval
    high: float
    better: int  # pictures that only the first classifier gets right
    worse: int
    p: float  # probability of such a difference, or a larger one, by chance alone (McNemar's exact test)


def compared(ours: NDArray[np.bool_], theirs: NDArray[np.bool_]) -> Compared:
    """Compare which pictures are right: `ours` − `theirs`.

    The interval is Agresti and Min's (2005): half a picture is added to each of the four cells, so that the interval is
    not empty if the two agree on a few pictures.
    """
    better, worse, n = int(np.sum(ours & ~theirs)), int(np.sum(~ours & theirs)), len(ours)
    b, c, total = better + 0.5, worse + 0.5, n + 2
    reach = float(scipy.stats.norm.ppf(0.975)) * (b + c - (b - c) ** 2 / total) ** 0.5 / total
    difference, middle = (better - worse) / n, (b - c) / total
    different = better + worse
    p = float(scipy.stats.binomtest(better, different).pvalue) if different else 1.0
    return Compared(difference, max(-1.0, middle - reach), min(1.0, middle + reach), better, worse, p)
