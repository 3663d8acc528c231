"""Do the unlabelled pictures show other things than the labelled classes?

The baseline has learnt from neither the unlabelled nor the held-out pictures. If both show the same classes, it finds
them equally strange, by two measures: the entropy of its answer, and the cosine distance of the picture's features to
the nearest ones of a labelled training picture. Ranks of the two are added up.

    a = P(an unlabelled picture is stranger than a held-out one)        ½ if all is well, 1 if nothing is familiar

Were a share s of the unlabelled pictures foreign and always stranger, a would be ½ + s/2: 2a − 1 is the least share
that explains what is seen. On digits (0 to 4 labelled, 5 to 9 not) a was 0.9 and more, and within 0.04 of ½ where
nothing was foreign; docs/own_pictures.md has the counts.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from metapl.evaluate.measures import log_softmax

SURE = 0.995  # of a one-sided interval
CLEAR, SOME = 0.58, 0.53  # what `a` and the lower end of its interval must reach: less, another camera could do
MOST = 2000  # labelled training pictures that distances are measured to

Floats = NDArray[np.float64]


class Foreign(NamedTuple):
    """What was found."""

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


def look(held_out: Floats, unlabeled: Floats) -> Foreign | None:
    """Compare how strange both are; None where there is nothing to compare."""
    n, m = len(held_out), len(unlabeled)
    if n < 2 or m < 2:
        return None
    ranks = stats.rankdata(np.concatenate([held_out, unlabeled]))
    a = float((ranks[n:].sum() - m * (m + 1) / 2) / (n * m))
    reach = float(stats.norm.ppf(SURE)) * _deviation(a, n, m)
    low, high = max(0.0, a - reach), min(1.0, a + reach)
    return Foreign(a, low, high, max(0.0, 2 * a - 1), bool(a >= CLEAR and low >= SOME))


def _deviation(a: float, n: int, m: int) -> float:
    """Of `a` by chance: Hanley and McNeil (1982), and never less than that of equal populations."""
    q1, q2 = a / (2 - a), 2 * a * a / (1 + a)
    variance = (a * (1 - a) + (m - 1) * (q1 - a * a) + (n - 1) * (q2 - a * a)) / (n * m)
    return float(max(variance, (n + m + 1) / (12 * n * m)) ** 0.5)


def strangeness(
    logits: NDArray[np.float32], features: NDArray[np.float32], familiar: NDArray[np.float32], held_out: int
) -> tuple[Floats, Floats]:
    """Of the first `held_out` pictures and of the others: ranks by entropy and by distance to familiar features."""
    log_p = log_softmax(logits)
    entropy = -(np.exp(log_p) * log_p).sum(-1)
    total = stats.rankdata(entropy) + stats.rankdata(_distances(features, familiar[:MOST]))
    return total[:held_out], total[held_out:]


def _distances(features: NDArray[np.float32], familiar: NDArray[np.float32]) -> Floats:
    """1 − the cosine with the most similar one."""
    ours, theirs = _normalized(features), _normalized(familiar)
    return np.concatenate([1 - (ours[at : at + 1024] @ theirs.T).max(-1) for at in range(0, len(ours), 1024)])


def _normalized(features: NDArray[np.float32]) -> Floats:
    wide = features.astype(np.float64)
    return wide / np.maximum(np.linalg.norm(wide, axis=-1, keepdims=True), 1e-12)
