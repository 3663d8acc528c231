"""Which unlabelled pictures are worth a label: unsure ones, and no two alike.

The most unsure pictures of a model are often the same mistake many times. So of the ten times too many that are least
sure (the smallest margin between the two best classes; half of the pictures, where there are fewer), those are taken in
turn that are farthest from all taken so far, by the model's own features.
"""

import numpy as np
from numpy.typing import NDArray

from metapl.evaluate.measures import log_softmax

COUNT, CANDIDATES = 50, 10  # so many are listed, of so many times more


def margins(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """How much more probable the best class is than the second best: 0 is a coin's toss."""
    best = np.sort(np.exp(log_softmax(logits)), axis=-1)
    return best[:, -1] - best[:, -2]


def choose(logits: NDArray[np.float32], features: NDArray[np.float32], count: int = COUNT) -> NDArray[np.int64]:
    """Rows in the order in which labels help most."""
    if not len(logits):
        return np.arange(0)
    candidates = max(count, min(count * CANDIDATES, len(logits) // 2))
    unsure = np.argsort(margins(logits), kind="stable")[:candidates]
    points = features[unsure].astype(np.float64)
    points /= np.maximum(np.linalg.norm(points, axis=-1, keepdims=True), 1e-12)
    taken = [0]
    far = np.linalg.norm(points - points[0], axis=-1)
    while len(taken) < min(count, len(unsure)):
        far[taken] = -1.0
        taken.append(int(np.argmax(far)))
        far = np.minimum(far, np.linalg.norm(points - points[taken[-1]], axis=-1))
    return unsure[taken]
