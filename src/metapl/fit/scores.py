"""Numbers and lists of a verdict: accuracy, calibration, worst classes, least sure pictures, what to label next."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.evaluate.measures import confusion, per_class_accuracy, score
from metapl.evaluate.statistics import wilson
from metapl.fit import label_next as next_labels

WORST, LEAST_SURE = 5, 20  # classes and pictures that are listed

Labels = NDArray[np.int32]
Logits = NDArray[np.float32]


class PictureFacts(NamedTuple):
    """Labels and names of the pictures that the models predict."""

    test_labels: Labels
    test_names: Sequence[str]
    unlabeled_names: Sequence[str]
    class_names: Sequence[str]
    labeled_counts: NDArray[np.int64]  # labelled pictures of each class that were trained on


def scores(logits: Logits, temperature: float, labels: Labels) -> dict[str, Any]:
    """Accuracy with its interval, and calibration before and after."""
    before, after = score(logits, labels), score(logits / np.float32(temperature), labels)
    share = wilson(int(np.sum(logits.argmax(-1) == labels)), len(labels))
    classes = [value for value in per_class_accuracy(confusion(logits, labels)) if value is not None]
    return {
        "accuracy": share.share,
        "low": share.low,
        "high": share.high,
        "mean_class_accuracy": float(np.mean(classes)),
        "temperature": temperature,
        "nll": before.nll,
        "nll_calibrated": after.nll,
        "calibration_error": before.calibration_error,
        "calibration_error_calibrated": after.calibration_error,
    }


def confusion_counts(logits: Logits, pictures: PictureFacts) -> list[list[int]]:
    """How often each class was predicted as each: [true class][predicted class]."""
    return [[int(count) for count in row] for row in confusion(logits, pictures.test_labels)]


def worst_classes(logits: Logits, pictures: PictureFacts) -> list[dict[str, Any]]:
    """The classes with the lowest accuracies, without those that have no mistake or no test picture."""
    counts = confusion(logits, pictures.test_labels)
    rows: list[dict[str, Any]] = []
    for label, row in enumerate(counts):
        if (total := int(row.sum())) and row[label] < total:
            share, mistakes = wilson(int(row[label]), total), row.copy()
            mistakes[label] = 0
            rows.append(
                {
                    "class": pictures.class_names[label],
                    "pictures": total,
                    "accuracy": share.share,
                    "low": share.low,
                    "high": share.high,
                    "taken_for": pictures.class_names[int(mistakes.argmax())],
                    "labeled": int(pictures.labeled_counts[label]),
                }
            )
    return sorted(rows, key=lambda row: (row["accuracy"], -row["pictures"]))[:WORST]


def least_sure(logits: Logits, temperature: float, pictures: PictureFacts) -> list[dict[str, Any]]:
    """The test pictures with the smallest margins, with their labels."""
    rows = np.argsort(next_labels.margins(logits), kind="stable")[:LEAST_SURE]
    listed = two_best(logits, pictures.test_names, rows, temperature, pictures.class_names)
    labels = [pictures.class_names[label] for label in pictures.test_labels[rows]]
    return [row | {"label": label} for row, label in zip(listed, labels, strict=True)]


def label_next(
    logits: Mapping[str, Logits], name: str, features: Logits, temperature: float, pictures: PictureFacts
) -> list[dict[str, Any]]:
    """The unlabelled pictures to label next, by the model of this name."""
    if name not in logits or not len(logits[name]):
        return []
    rows = next_labels.choose(logits[name], features)
    return two_best(logits[name], pictures.unlabeled_names, rows, temperature, pictures.class_names)


def two_best(
    logits: Logits, names: Sequence[str], rows: NDArray[np.int64], temperature: float, class_names: Sequence[str]
) -> list[dict[str, Any]]:
    """The two most probable classes of each picture, with calibrated probabilities."""
    scaled = logits[rows].astype(np.float64) / temperature
    p = np.exp(scaled - np.logaddexp.reduce(scaled, -1, keepdims=True))
    order = np.argsort(-p, -1, kind="stable")
    return [
        {
            "row": int(row),
            "path": names[int(row)],
            "prediction": class_names[first],
            "probability": round(float(p[i, first]), 4),
            "second": class_names[second],
            "second_probability": round(float(p[i, second]), 4),
        }
        for i, (row, (first, second)) in enumerate(zip(rows, order[:, :2], strict=True))
    ]
