"""The features of a fit's pictures, and which of them judge its models.

A model is chosen and calibrated on labelled pictures that it was not trained on. If there is a val part of some size,
these are its pictures. If not, no label is set aside: the labelled pictures are cut into folds, and each is predicted
by a model that was trained on the other folds. The model that is kept is trained on all of them.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.data.sources.features import Features
from metapl.features import load
from metapl.features.folds import fold_of
from metapl.features.load import Prepared
from metapl.fit.rung import Logits

FOLDS = 5
MOST_JUDGED = 5000  # unlabelled pictures that the verdict's sentences are about
ENOUGH = 100  # val pictures: with so many, no folds are needed

Values = NDArray[np.float32]  # [N, D]
Labels = NDArray[np.int32]
Rows = NDArray[np.int64]


class Encoded(NamedTuple):
    """Features of the eval views by role, with labels."""

    prepared: Prepared
    labeled: Values
    labels: Labels
    test: Values
    test_labels: Labels
    val: Values
    val_labels: Labels
    unlabeled: Values  # of those that are used; empty before they are encoded
    used: Rows  # which of the encoded unlabelled pictures these are: all but the foreign ones
    judged: Rows  # those of `unlabeled` that are predicted for the verdict
    fold: Rows  # of each labelled picture
    folds: int  # 0: the val part is enough
    most_judged: int = MOST_JUDGED  # fewer if time is short

    @property
    def settings(self) -> Features:
        """The settings of the source, for runs on these features."""
        return self.prepared.config

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes."""
        return self.prepared.pictures.class_names

    @property
    def judged_pictures(self) -> Rows:
        """Which of the encoded unlabelled pictures are predicted for the verdict."""
        return self.used[self.judged]

    @property
    def learnt(self) -> Rows:
        """Rows of `unlabeled` that finetuning learns from: all, or if time is short, those that are judged."""
        return np.arange(len(self.used)) if self.most_judged >= MOST_JUDGED else self.judged

    @property
    def validation_labels(self) -> Labels:
        """The labels of the pictures that choose and calibrate: the labelled ones if there are folds, then val's."""
        return np.concatenate([self.labels, self.val_labels]) if self.folds else self.val_labels

    def validation(self, of_folds: Logits, of_val: Logits) -> Logits:
        """Put predictions together in the order of `validation_labels`."""
        return np.concatenate([of_folds, of_val]) if self.folds else of_val


def read(prepared: Prepared, count: Callable[[str, int], Callable[[int], None]]) -> Encoded:
    """Encode the labelled and the held-out pictures; `count(title, total)` shows how far it is."""
    roles = {role: eval_view(prepared, role, count) for role in ("labeled", "test", "val")}
    labels = {role: prepared.pictures.labels(role) for role in ("labeled", "test", "val")}
    distinct = len(np.unique(roles["labeled"], axis=0))
    folds = number_of_folds(labels["labeled"], len(labels["val"]), distinct)
    none, nobody = np.zeros((0, roles["labeled"].shape[1]), np.float32), np.arange(0)
    fold = fold_of(roles["labeled"], labels["labeled"], folds) if folds else np.zeros(len(roles["labeled"]), np.int64)
    return Encoded(
        prepared,
        roles["labeled"],
        labels["labeled"],
        roles["test"],
        labels["test"],
        roles["val"],
        labels["val"],
        none,
        nobody,
        nobody,
        fold,
        folds,
    )


def with_unlabeled(
    encoded: Encoded, prepared: Prepared, count: Callable[[str, int], Callable[[int], None]], most_judged: int
) -> Encoded:
    """Encode the unlabelled pictures, too; at most so many of them are judged."""
    values = eval_view(prepared, "unlabeled", count)
    encoded = encoded._replace(prepared=prepared, unlabeled=values, used=np.arange(len(values)))
    return judging(encoded, most_judged)


def without(encoded: Encoded, foreign: Rows) -> Encoded:
    """Leave out unlabelled pictures, given by their rows among the encoded ones."""
    kept = ~np.isin(encoded.used, foreign)
    encoded = encoded._replace(unlabeled=encoded.unlabeled[kept], used=encoded.used[kept])
    return judging(encoded, encoded.most_judged)


def judging(encoded: Encoded, most: int) -> Encoded:
    """Judge at most so many unlabelled pictures."""
    judged = np.sort(np.random.RandomState(0).permutation(len(encoded.used))[:most])
    return encoded._replace(most_judged=most, judged=judged)


def eval_view(prepared: Prepared, role: str, count: Callable[[str, int], Callable[[int], None]]) -> Values:
    """The features of a role's pictures as they are; none if the role has no pictures."""
    if role not in prepared.examples:
        width = load.stored(prepared, "labeled", only_eval_view=True).shape[-1]
        return np.zeros((0, width), np.float32)
    total = len(prepared.examples[role])
    only = role in load.TRAINING  # of others, there is no other view, and heads read the same file
    return np.asarray(load.stored(prepared, role, count(f"encoding {role}", total), only)[:, 0], np.float32)


def number_of_folds(labels: Labels, val: int, distinct: int) -> int:
    """As many folds as the largest class has pictures, at most FOLDS; 0 if val is enough or nothing can be cut.

    Copies are in one fold, so there are not more folds than distinct pictures.
    """
    most = min(int(np.bincount(labels).max()), distinct)
    return 0 if val >= min(ENOUGH, len(labels)) or most < 2 else min(FOLDS, most)


def picture_names(encoded: Encoded, role: str) -> list[str]:
    """The names of a role's pictures; of the unlabelled ones, those that are judged."""
    images = encoded.prepared.pictures.images(role)  # type: ignore[arg-type]
    rows = encoded.judged_pictures if role == "unlabeled" else range(len(images))
    return [images.name(int(row)) for row in rows]
