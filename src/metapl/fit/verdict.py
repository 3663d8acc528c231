"""Did the unlabelled pictures help, and which model should be used? Numbers, and sentences about them.

Everything is measured on pictures that neither model was trained on or calibrated with. The same pictures decide which
of the two is recommended. So both accuracies are given, and the reader can see what the choice was based on.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.evaluate import temperature
from metapl.evaluate.measures import confusion, per_class_accuracy, score
from metapl.evaluate.statistics import Compared, compared, wilson
from metapl.fit import foreign, label_next
from metapl.fit.foreign import Foreign
from metapl.fit.predictions import ModelPredictions

SUPERVISED, MPL = "supervised", "mpl"  # the names of the two runs, in files and folders
FORMAT = 2
WORST, LEAST_SURE = 5, 20  # classes and pictures that are listed
FEW = 30  # held-out pictures: with fewer, every interval is wide
CHANCE = 0.05  # how probable an outcome other than neutral may be if both models are equally good
MAJORITY = 0.5  # with this share of foreign pictures or more, the baseline is always recommended

Outcome = Literal["helped", "neutral", "hurt", "none"]
Labels = NDArray[np.int32]
Logits = NDArray[np.float32]


class PictureFacts(NamedTuple):
    """Labels and names of the pictures that the models predict."""

    val_labels: Labels
    test_labels: Labels
    test_names: Sequence[str]
    unlabeled_names: Sequence[str]
    class_names: Sequence[str]
    labeled_counts: NDArray[np.int64]  # labelled pictures of each class that were trained on


def verdict(predictions: Mapping[str, ModelPredictions], pictures: PictureFacts) -> dict[str, Any]:
    """The whole verdict, ready for JSON; `predictions` has the baseline's and, with unlabelled pictures, MPL's."""
    right = {name: model.test.argmax(-1) == pictures.test_labels for name, model in predictions.items()}
    difference = compared(right[MPL], right[SUPERVISED]) if MPL in predictions else None
    outcome = judge(difference)
    strange = _foreign(predictions[SUPERVISED]) if MPL in predictions else None
    recommended, why = recommend(difference, outcome, strange)
    best = predictions[recommended]
    chosen = label_next.choose(best.unlabeled, best.unlabeled_features)
    return {
        "format": FORMAT,
        "pictures": len(pictures.test_labels),
        "recommended": recommended,
        "why": why,
        "unlabeled": outcome,
        "difference": difference and difference._asdict(),
        "other_classes": strange and strange.as_json(),
        "models": {name: _scores(model, pictures) for name, model in predictions.items()},
        "worst_classes": _worst_classes(best, pictures),
        "least_sure": _least_sure(best, pictures),
        "label_next": _two_best(best.unlabeled, pictures.unlabeled_names, chosen, best, pictures),
        "warnings": _warnings(difference, outcome, strange, len(pictures.test_labels)),
    }


def judge(difference: Compared | None) -> Outcome:
    """Neutral if the interval contains 0, or if McNemar's test says that chance could explain the difference.

    With three pictures that only one model gets right, the interval excludes 0, but the exact test is not sure (p = ¼).
    """
    if difference is None:
        return "none"
    if difference.p > CHANCE:
        return "neutral"
    if difference.low > 0:
        return "helped"
    return "hurt" if difference.high < 0 else "neutral"


def recommend(difference: Compared | None, outcome: Outcome, strange: Foreign | None) -> tuple[str, str]:
    """Name the model to use, and say why in one sentence."""
    if difference is None:
        return SUPERVISED, "there were no unlabelled pictures, so only the supervised model was trained"
    suspected = strange is not None and strange.suspected
    if suspected and strange is not None and (strange.share >= MAJORITY or outcome != "helped"):
        return SUPERVISED, (
            "the unlabelled pictures seem to show other things than the labelled classes, or to come from elsewhere, "
            "so a model that learnt from them cannot be trusted"
        )
    if outcome == "hurt":
        return SUPERVISED, "the unlabelled pictures made the model worse"
    if outcome == "helped":
        return MPL, "the unlabelled pictures made the model better"
    if difference.difference > 0:
        return MPL, "it was right more often, though chance alone could explain the difference"
    if difference.difference < 0:
        return SUPERVISED, "it was right more often, though chance alone could explain the difference"
    return SUPERVISED, "both were right equally often, and it is the simpler one"


def _foreign(model: ModelPredictions) -> Foreign | None:
    logits = np.concatenate([model.test, model.unlabeled])
    features = np.concatenate([model.test_features, model.unlabeled_features])
    return foreign.compare(*foreign.strangeness(logits, features, model.labeled_features, len(model.test)))


def _scores(model: ModelPredictions, pictures: PictureFacts) -> dict[str, Any]:
    labels = pictures.test_labels
    t = temperature.fit(model.val, pictures.val_labels)
    before, after = score(model.test, labels), score(model.test / np.float32(t), labels)
    share = wilson(int(np.sum(model.test.argmax(-1) == labels)), len(labels))
    classes = [value for value in per_class_accuracy(confusion(model.test, labels)) if value is not None]
    return {
        "accuracy": share.share,
        "low": share.low,
        "high": share.high,
        "mean_class_accuracy": float(np.mean(classes)),
        "temperature": t,
        "nll": before.nll,
        "nll_calibrated": after.nll,
        "calibration_error": before.calibration_error,
        "calibration_error_calibrated": after.calibration_error,
    }


def _worst_classes(model: ModelPredictions, pictures: PictureFacts) -> list[dict[str, Any]]:
    """The classes with the lowest accuracies, without those that have no mistake or no test picture."""
    counts = confusion(model.test, pictures.test_labels)
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


def _least_sure(model: ModelPredictions, pictures: PictureFacts) -> list[dict[str, Any]]:
    """The test pictures with the smallest margins, with their labels."""
    rows = np.argsort(label_next.margins(model.test), kind="stable")[:LEAST_SURE]
    listed = _two_best(model.test, pictures.test_names, rows, model, pictures)
    labels = [pictures.class_names[label] for label in pictures.test_labels[rows]]
    return [row | {"label": label} for row, label in zip(listed, labels, strict=True)]


def _two_best(
    logits: Logits, names: Sequence[str], rows: NDArray[np.int64], model: ModelPredictions, pictures: PictureFacts
) -> list[dict[str, Any]]:
    """The two most probable classes of each picture, with calibrated probabilities."""
    scaled = logits[rows].astype(np.float64) / temperature.fit(model.val, pictures.val_labels)
    p = np.exp(scaled - np.logaddexp.reduce(scaled, -1, keepdims=True))
    order = np.argsort(-p, -1, kind="stable")
    return [
        {
            "path": names[int(row)],
            "prediction": pictures.class_names[first],
            "probability": round(float(p[i, first]), 4),
            "second": pictures.class_names[second],
            "second_probability": round(float(p[i, second]), 4),
        }
        for i, (row, (first, second)) in enumerate(zip(rows, order[:, :2], strict=True))
    ]


def _warnings(difference: Compared | None, outcome: Outcome, strange: Foreign | None, measured: int) -> list[str]:
    warnings = []
    if strange is not None and strange.suspected:
        warnings.append(
            "The unlabelled pictures seem to show other things than the labelled classes, or to come from elsewhere. "
            f"To the baseline, an unlabelled picture is stranger than a held-out one in {strange.a:.0%} of all pairs "
            f"(99 % interval: {strange.low:.0%} to {strange.high:.0%}; expected if both are of one kind: 50 %), as if "
            f"at least {strange.share:.0%} of them were foreign. Look at some of them before you rely on them. The "
            "accuracies were measured on pictures like the labelled ones: on pictures like the unlabelled ones they "
            "may be lower."
        )
    if outcome == "hurt":
        warnings.append("The unlabelled pictures hurt: without them the model is better.")
    if measured < FEW:
        warnings.append(f"Only {measured} pictures measure the result, so every interval is wide: label more pictures.")
    if difference is not None and outcome == "neutral":
        reach = 50 * (difference.high - difference.low)
        warnings.append(f"With {measured:,} pictures, a difference below about {reach:.1f} points cannot be detected.")
    return warnings
