"""How sure a comparison is."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats


def mean_and_std(values: NDArray[np.float64]) -> tuple[float, float]:
    """Mean and sample standard deviation, as tables report them; one value has no spread: 0."""
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


class Paired(NamedTuple):
    """A difference measured on the same data sets with the same seeds."""

    mean: float
    low: float | None  # ends of the 95 % interval of the mean (Student's t); one data set has none
    high: float | None
    better: int  # data sets on which the first is ahead
    worse: int
    n: int


def paired(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> Paired:
    """Compare two methods data set by data set: `ours` − `theirs`."""
    difference = ours - theirs
    n, mean = len(difference), float(np.mean(difference))
    low, high = None, None
    if n > 1:
        reach = float(stats.t.ppf(0.975, n - 1)) * float(np.std(difference, ddof=1)) / n**0.5
        low, high = mean - reach, mean + reach
    return Paired(mean, low, high, int(np.sum(difference > 0)), int(np.sum(difference < 0)), n)


class Share(NamedTuple):
    """How many of some pictures are right, with a 95 % interval."""

    share: float
    low: float
    high: float


def wilson(right: int, n: int) -> Share:
    """A share and its interval by Wilson's score: it stays between 0 and 1, and is wide where pictures are few."""
    if n < 1:
        raise ValueError("a share of nothing is no share")
    z, share = float(stats.norm.ppf(0.975)), right / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    reach = z / (1 + z * z / n) * (share * (1 - share) / n + z * z / (4 * n * n)) ** 0.5
    return Share(share, max(0.0, min(share, centre - reach)), min(1.0, max(share, centre + reach)))


class Compared(NamedTuple):
    """Two classifiers on the same pictures."""

    difference: float  # of their accuracies
    low: float  # ends of its 95 % interval
    high: float
    better: int  # pictures that only the first gets right
    worse: int
    p: float  # how often chance alone would part them so far (McNemar's test, exact)


def compared(ours: NDArray[np.bool_], theirs: NDArray[np.bool_]) -> Compared:
    """Compare which pictures are right: `ours` − `theirs`.

    The interval is Agresti and Min's (2005): half a picture is added to each of the four cells, so that a few pictures
    on which both agree do not pass for certainty.
    """
    better, worse, n = int(np.sum(ours & ~theirs)), int(np.sum(~ours & theirs)), len(ours)
    b, c, total = better + 0.5, worse + 0.5, n + 2
    reach = float(stats.norm.ppf(0.975)) * (b + c - (b - c) ** 2 / total) ** 0.5 / total
    difference, middle = (better - worse) / n, (b - c) / total
    apart = better + worse
    p = float(stats.binomtest(better, apart).pvalue) if apart else 1.0
    return Compared(difference, max(-1.0, middle - reach), min(1.0, middle + reach), better, worse, p)
