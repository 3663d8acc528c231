"""Which rung should be used, by how much it is better than scikit-learn's answer, and did the unlabelled pictures help?

Accuracies are measured on test pictures that no rung was trained on, chosen by or calibrated with. The rung is chosen
by validation pictures (select.py), so its measured accuracy is not the best of several.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.evaluate.statistics import Compared, compared
from metapl.fit import foreign_share, scores, select
from metapl.fit.foreign_share import Foreign
from metapl.fit.rung import Rung
from metapl.fit.scores import PictureFacts

LINEAR = "linear"  # the name of scikit-learn's answer
ALONE = (
    "joint",
    "finetuned",
    "joint_finetuned",
    "finetuned_mpl",
    "own_network",
)  # rungs that have no counterpart without unlabelled pictures: they say nothing about these
FORMAT = 3
FEW = 30  # held-out pictures: with fewer, every interval is wide
CHANCE = 0.05  # how probable an outcome other than neutral may be if both models are equally good
MAJORITY = 0.5  # with this share of foreign pictures or more, a model without unlabelled ones is always recommended

Outcome = Literal["helped", "neutral", "hurt", "none"]
Floats = NDArray[np.float32]


class Surroundings(NamedTuple):
    """What the models are asked about beside the test pictures."""

    validation_labels: NDArray[np.int32]
    unlabeled_logits: dict[str, Floats]  # of scikit-learn's answer, and of the rungs that may be recommended
    unlabeled_features: Floats
    labeled_features: Floats
    test_features: Floats


def verdict(rungs: Sequence[Rung], pictures: PictureFacts, around: Surroundings) -> dict[str, Any]:
    """The whole verdict, ready for JSON."""
    labels = around.validation_labels
    paired = [rung for rung in rungs if rung.about.name not in ALONE]
    with_them = [rung for rung in paired if rung.about.uses_unlabeled]
    without = [rung for rung in paired if not rung.about.uses_unlabeled]
    pair = [select.best(some, labels) for some in (with_them, without)] if with_them else []
    difference = compare(pair[0], pair[1], pictures) if pair else None
    outcome, strange = judge(difference), strangeness(rungs[0], around) if with_them else None
    best, why = recommend(rungs, labels, strange, outcome)
    t = temperature_of(best, labels)
    return {
        "format": FORMAT,
        "pictures": len(pictures.test_labels),
        "recommended": best.about.name,
        "title": best.about.title,
        "why": why,
        "over_linear": as_json(compare(best, rungs[0], pictures)) if best is not rungs[0] else None,
        "unlabeled": outcome,
        "difference": as_json(difference),
        "compared": [rung.about.title for rung in pair],
        "other_classes": strange and strange.as_json(),
        "ladder": [row(rung, rungs[0], labels, pictures) for rung in rungs],
        "worst_classes": scores.worst_classes(best.predictions.test, pictures),
        "confusion": scores.confusion_counts(best.predictions.test, pictures),
        "class_names": list(pictures.class_names),
        "least_sure": scores.least_sure(best.predictions.test, t, pictures),
        "label_next": scores.label_next(
            around.unlabeled_logits, best.about.name, around.unlabeled_features, t, pictures
        ),
        "warnings": warnings(difference, outcome, strange, len(pictures.test_labels)),
    }


def row(rung: Rung, linear: Rung, labels: NDArray[np.int32], pictures: PictureFacts) -> dict[str, Any]:
    """One rung's numbers."""
    validated = select.validate(rung, labels)
    against = None if rung is linear else as_json(compare(rung, linear, pictures))
    return {
        **rung.about._asdict(),
        "seconds": rung.seconds,
        "remark": rung.remark,
        "validation": None if validated is None else validated.accuracy,
        "validation_pictures": 0 if validated is None else validated.pictures,
        **scores.scores(rung.predictions.test, temperature_of(rung, labels), pictures.test_labels),
        "over_linear": against,
    }


def temperature_of(rung: Rung, labels: NDArray[np.int32]) -> float:
    """What the rung's logits are divided by; 1 if nothing could calibrate them."""
    validated = select.validate(rung, labels)
    return 1.0 if validated is None else validated.temperature


def compare(one: Rung, other: Rung, pictures: PictureFacts) -> Compared:
    """Compare two rungs on the same test pictures."""
    right = [rung.predictions.test.argmax(-1) == pictures.test_labels for rung in (one, other)]
    return compared(right[0], right[1])


def as_json(difference: Compared | None) -> dict[str, Any] | None:
    """A difference as a table."""
    return None if difference is None else difference._asdict()


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


def recommend(
    rungs: Sequence[Rung], labels: NDArray[np.int32], strange: Foreign | None, outcome: Outcome
) -> tuple[Rung, str]:
    """Choose the rung to use, and say why in one sentence."""
    without = [rung for rung in rungs if not rung.about.uses_unlabeled]
    if strange is not None and strange.suspected and (strange.share >= MAJORITY or outcome != "helped"):
        return select.best(without, labels), (
            "the unlabelled pictures seem to show other things than the labelled classes, or to come from elsewhere, "
            "so a model that learnt from them cannot be trusted"
        )
    best = select.best(rungs, labels)
    validated = select.validate(best, labels)
    if len(rungs) == 1:
        return best, "it is the only model so far"
    if validated is None:
        return best, "it is the usual choice, and there are too few labelled pictures to compare it with others"
    share = f"{100 * validated.accuracy:.1f} % of {validated.pictures:,} labelled pictures"
    how = f"it got {share} right that it had not seen"
    usual = select.favourite(rungs)
    if best is usual:
        return best, f"it is the usual choice, and validation was not clearly better for any other rung ({how})"
    return best, f"in validation it was clearly better than {usual.about.title}, the usual choice ({how})"


def strangeness(linear: Rung, around: Surroundings) -> Foreign | None:
    """Whether the unlabelled pictures look stranger to scikit-learn's answer than the test pictures do."""
    unlabeled = around.unlabeled_logits.get(linear.about.name)
    if unlabeled is None or not len(unlabeled):
        return None
    test = linear.predictions.test
    logits = np.concatenate([test, unlabeled])
    features = np.concatenate([around.test_features, around.unlabeled_features])
    return foreign_share.compare(*foreign_share.strangeness(logits, features, around.labeled_features, len(test)))


def percent(share: float) -> str:
    """A share as text."""
    return f"{100 * share:.0f} %"


def warnings(difference: Compared | None, outcome: Outcome, strange: Foreign | None, measured: int) -> list[str]:
    """Sentences that a reader must not miss."""
    said = []
    if strange is not None and strange.suspected:
        said.append(
            "The unlabelled pictures seem to show other things than the labelled classes, or to come from elsewhere. "
            f"metapl compared pairs of one unlabelled and one test picture: the unlabelled one looked stranger in "
            f"{percent(strange.a)} of them (99 % interval: {percent(strange.low)} to {percent(strange.high)}; 50 % is "
            f"expected if both are of one kind). This fits a foreign share of at least {percent(strange.share)}. Look "
            "at some of them before you rely on them. The accuracies were measured on pictures like the labelled ones: "
            "on pictures like the unlabelled ones they may be lower."
        )
    if outcome == "hurt":
        said.append("The unlabelled pictures hurt: without them the model is better.")
    if measured < FEW:
        said.append(f"Only {measured} pictures measure the result, so every interval is wide: label more pictures.")
    if difference is not None and outcome == "neutral":
        reach = 50 * (difference.high - difference.low)
        said.append(f"With {measured:,} pictures, a difference below about {reach:.1f} points cannot be detected.")
    return said
