"""Which unlabelled pictures to label next: unsure ones that differ from each other.

The pictures that a model is least sure of are often the same mistake many times. So first ten times as many as wanted
are taken, those with the smallest margin between the two best classes (of fewer pictures, half). From these, pictures
are chosen one by one: each time the one that is farthest from all chosen so far, by the model's own features.
"""

import numpy as np
from numpy.typing import NDArray

from metapl.evaluate.measures import log_softmax
from metapl.fit.unit_vectors import unit_vectors

COUNT = 50  # pictures that are listed
CANDIDATES = 10  # times as many are chosen from


def margins(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """The probability of the best class minus that of the second best; 0: the model cannot decide."""
    best = np.sort(np.exp(log_softmax(logits)), axis=-1)
    return best[:, -1] - best[:, -2]


def choose(logits: NDArray[np.float32], features: NDArray[np.float32], count: int = COUNT) -> NDArray[np.int64]:
    """Rows to label, the most useful first."""
    if not len(logits):
        return np.arange(0)
    candidates = max(count, min(count * CANDIDATES, len(logits) // 2))
    unsure = np.argsort(margins(logits), kind="stable")[:candidates]
    points = unit_vectors(features[unsure])
    taken = [0]
    far = np.linalg.norm(points - points[0], axis=-1)
    while len(taken) < min(count, len(unsure)):
        far[taken] = -1.0
        taken.append(int(np.argmax(far)))
        far = np.minimum(far, np.linalg.norm(points - points[taken[-1]], axis=-1))
    return unsure[taken]
