"""Did the unlabelled pictures help, and which model is to be trusted how far: numbers, and the sentence they amount to.

Everything is measured on pictures that neither model was trained on or calibrated with. Which of the two is recommended
is decided on them, too; both accuracies are given, so that nothing is hidden by the choice.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.evaluate import temperature
from metapl.evaluate.measures import confusion, per_class_accuracy, score
from metapl.evaluate.statistics import Compared, compared, wilson
from metapl.fit import foreign, label_next
from metapl.fit.answers import Answers
from metapl.fit.foreign import Foreign

SUPERVISED, MPL = "supervised", "mpl"  # what the two runs are called, in files and folders
FORMAT = 1
WORST, LEAST_SURE = 5, 20  # classes and pictures that are listed
FEW = 30  # held-out pictures: with fewer, every interval is wide
CHANCE = 0.05  # that an outcome other than neutral may have where the two models are equally good
MAJORITY = 0.5  # share of foreign pictures from which on the baseline is recommended, whatever else is seen

Outcome = Literal["helped", "neutral", "hurt", "none"]
Labels = NDArray[np.int32]


class Pictures(NamedTuple):
    """What the answers are about."""

    val_labels: Labels
    test_labels: Labels
    test_names: Sequence[str]
    unlabeled_names: Sequence[str]
    class_names: Sequence[str]
    train_counts: NDArray[np.int64]  # labelled training pictures of each class


def verdict(found: Mapping[str, Answers], pictures: Pictures) -> dict[str, Any]:
    """All of it, ready for JSON; `found` has the baseline's answers and, if there were unlabelled pictures, MPL's."""
    right = {name: own.test.argmax(-1) == pictures.test_labels for name, own in found.items()}
    difference = compared(right[MPL], right[SUPERVISED]) if MPL in found else None
    outcome = judge(difference)
    strange = _foreign(found[SUPERVISED]) if MPL in found else None
    recommended, why = recommend(difference, outcome, strange)
    best = found[recommended]
    chosen = label_next.choose(best.unlabeled, best.unlabeled_features)
    return {
        "format": FORMAT,
        "pictures": len(pictures.test_labels),
        "recommended": recommended,
        "why": why,
        "unlabeled": outcome,
        "difference": difference and difference._asdict(),
        "other_classes": strange and strange.as_json(),
        "models": {name: _scores(own, pictures) for name, own in found.items()},
        "worst_classes": _worst(best, pictures),
        "least_sure": _least_sure(best, pictures),
        "label_next": _unlabeled_rows(best, pictures, chosen),
        "warnings": list(_warnings(difference, outcome, strange, pictures)),
    }


def judge(difference: Compared | None) -> Outcome:
    """An interval that holds 0 says that nobody knows, and so does McNemar's test where chance would do it, too.

    Of three pictures that one model alone gets right, the interval is sure already; the exact test is not (p = ¼).
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
        return SUPERVISED, "there were no unlabelled pictures, so there is the supervised model alone"
    suspected = strange is not None and strange.suspected
    if suspected and strange is not None and (strange.share >= MAJORITY or outcome != "helped"):
        return SUPERVISED, (
            "the unlabelled pictures look as if they showed other things than the labelled classes, or came from "
            "elsewhere, so what was learnt from them is not to be trusted"
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


def _foreign(own: Answers) -> Foreign | None:
    logits = np.concatenate([own.test, own.unlabeled])
    features = np.concatenate([own.test_features, own.unlabeled_features])
    return foreign.look(*foreign.strangeness(logits, features, own.train_features, len(own.test)))


def _scores(own: Answers, pictures: Pictures) -> dict[str, Any]:
    labels = pictures.test_labels
    t = temperature.fit(own.val, pictures.val_labels)
    before, after = score(own.test, labels), score(own.test / np.float32(t), labels)
    share = wilson(int(np.sum(own.test.argmax(-1) == labels)), len(labels))
    classes = [value for value in per_class_accuracy(confusion(own.test, labels)) if value is not None]
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


def _worst(own: Answers, pictures: Pictures) -> list[dict[str, Any]]:
    """Classes with the most mistakes for their size, those that could not be measured left out."""
    counts = confusion(own.test, pictures.test_labels)
    rows: list[dict[str, Any]] = []
    for label, row in enumerate(counts):
        if (total := int(row.sum())) and row[label] < total:
            share, others = wilson(int(row[label]), total), row.copy()
            others[label] = 0
            rows.append(
                {
                    "class": pictures.class_names[label],
                    "pictures": total,
                    "accuracy": share.share,
                    "low": share.low,
                    "high": share.high,
                    "taken_for": pictures.class_names[int(others.argmax())],
                    "labelled_for_training": int(pictures.train_counts[label]),
                }
            )
    return sorted(rows, key=lambda row: (row["accuracy"], -row["pictures"]))[:WORST]


def _least_sure(own: Answers, pictures: Pictures) -> list[dict[str, Any]]:
    rows = np.argsort(label_next.margins(own.test), kind="stable")[:LEAST_SURE]
    named = _answers(own.test, pictures.test_names, pictures.class_names, rows, pictures.val_labels, own.val)
    labels = [pictures.class_names[label] for label in pictures.test_labels[rows]]
    return [row | {"label": label} for row, label in zip(named, labels, strict=True)]


def _unlabeled_rows(own: Answers, pictures: Pictures, rows: NDArray[np.int64]) -> list[dict[str, Any]]:
    names = pictures.unlabeled_names
    return _answers(own.unlabeled, names, pictures.class_names, rows, pictures.val_labels, own.val)


def _answers(
    logits: NDArray[np.float32],
    names: Sequence[str],
    class_names: Sequence[str],
    rows: NDArray[np.int64],
    val_labels: Labels,
    val: NDArray[np.float32],
) -> list[dict[str, Any]]:
    """The two best classes of each picture, as sure as the calibrated model is."""
    scaled = logits[rows].astype(np.float64) / temperature.fit(val, val_labels)
    p = np.exp(scaled - np.logaddexp.reduce(scaled, -1, keepdims=True))
    order = np.argsort(-p, -1, kind="stable")
    return [
        {
            "path": names[int(row)],
            "answer": class_names[first],
            "probability": round(float(p[i, first]), 4),
            "second": class_names[second],
            "second_probability": round(float(p[i, second]), 4),
        }
        for i, (row, (first, second)) in enumerate(zip(rows, order[:, :2], strict=True))
    ]


def _warnings(difference: Compared | None, outcome: Outcome, strange: Foreign | None, pictures: Pictures) -> list[str]:
    said = []
    n = len(pictures.test_labels)
    if strange is not None and strange.suspected:
        said.append(
            "The unlabelled pictures seem to show other things than the labelled classes, or to come from elsewhere: "
            f"an unlabelled picture is stranger to the baseline than a held-out one {strange.a:.0%} of the times (50 % "
            f"if they were of one kind; 99 % interval {strange.low:.0%} to {strange.high:.0%}), as if at least "
            f"{strange.share:.0%} of them were foreign. Look at some of them before you rely on them; and on pictures "
            "like these, whatever they show, the accuracies may not hold: they were measured on pictures like the "
            "labelled ones."
        )
    if outcome == "hurt":
        said.append("The unlabelled pictures hurt: without them the model is better.")
    if n < FEW:
        said.append(f"Only {n} pictures were there to measure with: every interval is wide, so label more.")
    if difference is not None and outcome == "neutral":
        reach = 50 * (difference.high - difference.low)
        said.append(f"A difference below about {reach:.1f} points cannot be seen with {n:,} pictures.")
    return said
