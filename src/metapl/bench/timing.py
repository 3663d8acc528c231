"""Measure how long something takes on a machine that does other things, too."""

import math
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

WARM_UP = 2
LEAST_S = 0.05  # for shorter times, reading the clock would be part of the result

Work = Callable[[int], None]  # does the work so many times and waits for the end


class Timing(NamedTuple):
    """Milliseconds for one repetition. Noise only adds time: `best` is the machine's speed, `median` the usual one."""

    median: float
    low: float  # quartiles
    high: float
    best: float


def measure(work: Work, repeats: int) -> Timing:
    """Time the work `repeats` times after a warm-up; quick work is done several times in a row."""
    work(WARM_UP)
    times = max(1, math.ceil(LEAST_S / max(seconds(work, 1), 1e-9)))
    milliseconds = np.array([1e3 * seconds(work, times) / times for _ in range(repeats)])
    low, median, high = np.percentile(milliseconds, (25, 50, 75))
    return Timing(float(median), float(low), float(high), float(milliseconds.min()))


def seconds(work: Work, times: int) -> float:
    """Seconds that the work takes, done so many times."""
    start = time.perf_counter()
    work(times)
    return time.perf_counter() - start
