"""Calibrate predictions: divide logits by the temperature under which held-out labels are most probable.

Guo et al. (2017) minimise the mean −log p alone. With a handful of pictures that would fit chance, so we add
(log T)² / (2 σ² N): T stays near 1 if there are few pictures, and the term vanishes with hundreds of them.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from metapl.evaluate.measures import log_softmax

SIGMA = 0.5  # of log T, before any picture is seen
RANGE = (0.05, 20.0)


def fit(logits: NDArray[np.float32], labels: NDArray[np.int32]) -> float:
    """Find the temperature for these logits; 1 if there are none."""
    if not len(labels):
        return 1.0

    def cost(log_t: float) -> float:
        log_p = np.take_along_axis(log_softmax(logits / np.exp(log_t)), labels[:, None], -1)
        return float(-log_p.mean() + log_t**2 / (2 * SIGMA**2 * len(labels)))

    minimum = optimize.minimize_scalar(cost, bounds=np.log(RANGE), method="bounded")
    return float(np.exp(minimum.x))
