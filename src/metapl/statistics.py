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
