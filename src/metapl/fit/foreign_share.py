"""Do the unlabelled pictures show other things than the labelled classes?

The baseline has learnt neither from the unlabelled nor from the held-out pictures. If both show the same classes, it
finds them equally strange, by two measures: the entropy of its prediction, and the cosine distance of the picture's
features to the nearest features of a labelled picture. The ranks by the two measures are added.

    a = P(an unlabelled picture is stranger than a held-out one)        ½: both are of one kind; 1: all are foreign

If a share s of the unlabelled pictures were foreign and always stranger, a would be ½ + s/2. So 2a − 1 is the smallest
share that explains what is measured. On digits (0 to 4 labelled, 5 to 9 not) a was 0.9 and more, and within 0.04 of ½
without foreign pictures.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from metapl.evaluate.measures import log_softmax
from metapl.fit.unit_vectors import unit_vectors

SURE = 0.995  # of a one-sided interval
CLEAR, SOME = 0.58, 0.53  # least values of `a` and of its lower end: another camera could cause smaller ones
MOST = 2000  # labelled pictures that distances are measured to

Floats = NDArray[np.float64]


class Foreign(NamedTuple):
    """How much stranger the unlabelled pictures are than the held-out ones."""

    a: float
    low: float  # ends of the 99 % interval of `a`
    high: float
    share: float  # 2a − 1, from 0 to 1
    suspected: bool

    def as_json(self) -> dict[str, Any]:
        """For the verdict."""
        return {
            "probability_stranger": self.a,
            "low": self.low,
            "high": self.high,
            "least_foreign_share": self.share,
            "suspected": self.suspected,
        }


def compare(held_out: Floats, unlabeled: Floats) -> Foreign | None:
    """Compare the strangeness of both; None if either has fewer than two pictures."""
    n, m = len(held_out), len(unlabeled)
    if n < 2 or m < 2:
        return None
    ranks = stats.rankdata(np.concatenate([held_out, unlabeled]))
    a = float((ranks[n:].sum() - m * (m + 1) / 2) / (n * m))
    reach = float(stats.norm.ppf(SURE)) * _deviation(a, n, m)
    low, high = max(0.0, a - reach), min(1.0, a + reach)
    return Foreign(a, low, high, max(0.0, 2 * a - 1), bool(a >= CLEAR and low >= SOME))


def _deviation(a: float, n: int, m: int) -> float:
    """The standard deviation of `a` (Hanley and McNeil, 1982), at least that of equal populations."""
    q1, q2 = a / (2 - a), 2 * a * a / (1 + a)
    variance = (a * (1 - a) + (m - 1) * (q1 - a * a) + (n - 1) * (q2 - a * a)) / (n * m)
    return float(max(variance, (n + m + 1) / (12 * n * m)) ** 0.5)


def strangeness(
    logits: NDArray[np.float32], features: NDArray[np.float32], familiar: NDArray[np.float32], held_out: int
) -> tuple[Floats, Floats]:
    """The strangeness of the first `held_out` pictures, and of the rest: ranks by entropy and by distance, added."""
    log_p = log_softmax(logits)
    entropy = -(np.exp(log_p) * log_p).sum(-1)
    some = familiar[np.random.RandomState(0).permutation(len(familiar))[:MOST]]
    total = stats.rankdata(entropy) + stats.rankdata(_distances(features, some))
    return total[:held_out], total[held_out:]


def _distances(features: NDArray[np.float32], familiar: NDArray[np.float32]) -> Floats:
    """1 − the cosine with the most similar familiar features."""
    points, known = unit_vectors(features), unit_vectors(familiar)
    return np.concatenate([1 - (points[at : at + 1024] @ known.T).max(-1) for at in range(0, len(points), 1024)])
