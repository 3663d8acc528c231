"""A learning curve: the test accuracy of logistic regression on parts of the labels, and what fifty more would bring.

On features it costs seconds. Beyond the labels that there are, the curve is continued as a straight line over the
logarithm of their number, fitted to the parts from a quarter on: a coarse rule, so the verdict says "about".
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from metapl.fit import classical
from metapl.fit.encoded import Encoded, Rows
from metapl.fit.heads import log_probabilities

PARTS = (0.125, 0.25, 0.5, 0.75, 1.0)  # of the labels
DRAWS = 5  # of each part
MORE = 50  # labels
LEAST_MEASURED = 10  # test pictures; with fewer, the curve says nothing about more labels


def learning_curve(encoded: Encoded, c: float, check: Callable[[], None]) -> dict[str, Any]:
    """Measure the curve: numbers of labels, mean accuracies, their smallest and largest values."""
    sizes: list[int] = []
    accuracies: list[list[float]] = []
    for part in PARTS:
        drawn = [_part(encoded, part, seed) for seed in range(1 if part == 1 else DRAWS)]
        if len(drawn[0]) in sizes:
            continue
        sizes.append(len(drawn[0]))
        accuracies.append([])
        for rows in drawn:
            check()
            head = classical.logistic(encoded.labeled[rows], encoded.labels[rows], len(encoded.class_names), c)
            right = log_probabilities([head], encoded.test).argmax(-1) == encoded.test_labels
            accuracies[-1].append(float(right.mean()))
    enough = len(encoded.test_labels) >= LEAST_MEASURED
    return {
        "labels": sizes,
        "accuracy": [float(np.mean(values)) for values in accuracies],
        "low": [min(values) for values in accuracies],
        "high": [max(values) for values in accuracies],
        "more": MORE,
        "gain": gain(sizes, [float(np.mean(values)) for values in accuracies]) if enough else None,
    }


def _part(encoded: Encoded, part: float, seed: int) -> Rows:
    """A part of each class's labelled pictures, at least one."""
    draw = np.random.RandomState(seed)
    rows = []
    for label in range(len(encoded.class_names)):
        own = draw.permutation(np.flatnonzero(encoded.labels == label))
        rows.append(own[: max(1, round(part * len(own)))])
    return np.sort(np.concatenate(rows))


def gain(sizes: list[int], accuracies: list[float], more: int = MORE) -> float | None:
    """What so many more labels would add by the fitted line; None if there are too few points."""
    n, a = np.array(sizes, float), np.array(accuracies)
    late = n >= n[-1] / 4.5
    if late.sum() < 2:
        return None
    slope = float(np.polyfit(np.log(n[late]), a[late], 1)[0])
    return max(0.0, min(1.0 - float(a[-1]), slope * float(np.log((n[-1] + more) / n[-1]))))
