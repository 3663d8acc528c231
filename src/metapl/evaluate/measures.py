"""Scores of a network's predictions: plain NumPy on logits and labels.

Accuracy is the share of examples whose most probable class is the right one; top-5 accuracy, of those whose right class
is among the five most probable. ReaL precision@1 counts a prediction as right if it is any of the labels that
ImageNet-ReaL has for the picture, and leaves out pictures without labels (Beyer et al., 2020). The expected
calibration error is Σ_b n_b/N · |accuracy_b − confidence_b| over 15 bins of equal width (Guo et al., 2017).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BINS = 15

Logits = NDArray[np.float32]  # [N, classes]
Labels = NDArray[np.int32]  # [N]


class Scores(NamedTuple):
    """One network on one part of the data; a score that these data do not allow is None."""

    accuracy: float
    nll: float  # mean of −log of the right class's probability
    calibration_error: float
    top5_accuracy: float | None = None  # only with more than five classes
    real_accuracy: float | None = None  # only with ImageNet-ReaL's labels


def score(logits: Logits, labels: Labels, real: NDArray[np.bool_] | None = None) -> Scores:
    """Compare predictions with labels; `real` [N, classes] says which labels are right by ImageNet-ReaL."""
    guesses, classes = logits.argmax(-1), logits.shape[-1]
    right = guesses == labels
    log_probabilities = log_softmax(logits)
    return Scores(
        accuracy=float(right.mean()),
        nll=float(-np.take_along_axis(log_probabilities, labels[:, None], -1).mean()),
        calibration_error=calibration_error(np.exp(log_probabilities.max(-1)), right),
        top5_accuracy=top_accuracy(logits, labels, 5) if classes > 5 else None,
        real_accuracy=None if real is None else real_accuracy(guesses, real),
    )


def log_softmax(logits: Logits) -> NDArray[np.float64]:
    """Logarithms of the probabilities, in double precision, so that sums over many examples are exact enough."""
    with np.errstate(invalid="ignore"):  # a diverged network scores nan, and the run says so
        shifted = logits.astype(np.float64) - logits.max(-1, keepdims=True)
        return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def top_accuracy(logits: Logits, labels: Labels, k: int) -> float:
    """Share of examples for which fewer than `k` classes rank before the right one; of equal logits, the first does.

    NaN ranks first, as in `argmax`: otherwise a diverged network would be right about everything.
    """
    logits = np.where(np.isnan(logits), np.inf, logits)
    of_right = np.take_along_axis(logits, labels[:, None], -1)
    equal_before = (logits == of_right) & (np.arange(logits.shape[-1]) < labels[:, None])
    return float((((logits > of_right) | equal_before).sum(-1) < k).mean())


def real_accuracy(guesses: NDArray[np.int64], real: NDArray[np.bool_]) -> float | None:
    """Precision@1 over the pictures that have a right label; None if no picture has one."""
    counted = real.any(-1)
    right = np.take_along_axis(real, guesses[:, None], -1)[:, 0]
    return float(right[counted].mean()) if counted.any() else None


def calibration_error(confidences: NDArray[np.float64], right: NDArray[np.bool_]) -> float:
    """How far confidence is from accuracy, on average over bins that are closed on the right."""
    inner_edges = np.linspace(0, 1, BINS + 1)[1:-1]
    bins = np.digitize(confidences, inner_edges, right=True)
    gaps = np.bincount(bins, right - confidences, BINS)
    return float(np.abs(gaps).sum() / len(right))


def confusion(logits: Logits, labels: Labels) -> NDArray[np.int64]:
    """Count predictions: [true class, predicted class]."""
    classes = logits.shape[-1]
    return np.bincount(labels * classes + logits.argmax(-1), minlength=classes**2).reshape(classes, classes)


def per_class_accuracy(confusion: NDArray[np.int64]) -> list[float | None]:
    """Share of each class's examples that are predicted right; None for a class without examples."""
    return [float(row[i] / row.sum()) if row.sum() else None for i, row in enumerate(confusion)]
