"""Labels that may be wrong: labelled pictures whose class looks like another one to models that did not learn them.

As in confident learning (Northcutt et al., 2021), a picture is suspected of belonging to class c if its out-of-fold
probability of c is at least as high as that of a typical picture of c:

    t_c = the mean of p_c over the pictures that are labelled c
    suspected if p_c >= t_c for a class c other than its label, and p_c is above the probability of its label

The most suspicious pictures, by p_c minus the probability of the label, come first. These are hints to look at: many of
them are right but unusual. With a val part of some size there are no folds, and no hints.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metapl.evaluate.measures import log_softmax

COUNT = 1000  # pictures that are listed


def suspected(
    logits: NDArray[np.float32], labels: NDArray[np.int32], names: Sequence[str], class_names: Sequence[str]
) -> list[dict[str, Any]]:
    """The suspected pictures; `logits` are out-of-fold, nan where a picture was not predicted."""
    known = np.flatnonzero(np.isfinite(logits).all(-1))
    if not len(known):
        return []
    p, own = np.exp(log_softmax(logits[known])), labels[known]
    typical = np.array([p[own == c, c].mean() if np.any(own == c) else np.inf for c in range(p.shape[1])])
    of_label = p[np.arange(len(own)), own]
    other = np.where((p >= typical) & (np.arange(p.shape[1]) != own[:, None]), p, -np.inf)
    best = other.argmax(-1)
    margin = other.max(-1) - of_label
    order = [i for i in np.argsort(-margin, kind="stable") if margin[i] > 0][:COUNT]
    return [
        {
            "row": int(known[i]),
            "path": names[int(known[i])],
            "label": class_names[own[i]],
            "prediction": class_names[best[i]],
            "probability": round(float(p[i, best[i]]), 4),
            "second": class_names[own[i]],
            "second_probability": round(float(of_label[i]), 4),
        }
        for i in order
    ]
