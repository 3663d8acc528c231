"""Give each labelled picture a role where the data do not: which train and which measure (test).

The pictures that a verdict is measured on are used neither for training nor for calibration. Copies and look-alikes get
the same role: a copy of a training picture would make the test too easy. A class of one or two pictures keeps them all
for training, unless nothing could be measured then. Such a class is not measured, and the verdict says so. No labelled
picture is set aside for choice and calibration: cross-validation does without (encoded.py).
"""

from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.data.audit.survey import Survey
from metapl.schema import ConfigError

TEST_SHARE = 0.2  # of each class's labelled pictures
MOST_TEST, MOST_VAL = 2000, 2000  # more delay the first model, and make no interval much narrower
MOST_COPIES = 10  # if more pictures than these share a perceptual hash, they are simple rather than copies

Rows = NDArray[np.int64]
MeasuredOn = Literal["test part", "val part", "labelled pictures"]


class RoleRows(NamedTuple):
    """Rows of the labelled pictures, and of the val part's, by role."""

    labeled: Rows
    test: Rows
    val_part_val: Rows
    val_part_test: Rows
    measured_on: MeasuredOn


def assign_roles(
    labels: NDArray[np.int32], groups: Rows, val_labels: NDArray[np.int32], has_test: bool, seed: int
) -> RoleRows:
    """Give the labelled and the val pictures their roles; labelled pictures of one group get the same role."""
    draw, none = np.random.RandomState(seed), np.arange(0)
    every, val_part = np.arange(len(labels)), np.arange(len(val_labels))
    if has_test:
        return RoleRows(every, none, val_part, none, "test part")
    if len(val_part) > 1:
        # Two thirds measure, one third calibrates: one temperature needs fewer pictures than an accuracy.
        test, val = _hold_out(val_labels, val_part, val_part, 1 / 3, MOST_VAL, 2, draw)
        return RoleRows(every, none, val, test, "val part")
    labeled, test = _hold_out(labels, groups, every, TEST_SHARE, MOST_TEST, 3, draw)
    if not len(test):
        labeled, test = _hold_out(labels, groups, every, TEST_SHARE, MOST_TEST, 2, draw)
    if not len(test):
        raise ConfigError(
            "no class has two different labelled pictures, so none could be held out to measure the result; label "
            "more pictures, or add a test part (docs/data.md)"
        )
    return RoleRows(labeled, test, val_part, none, "labelled pictures")


def measured_rows(count: int, seed: int) -> Rows:
    """Which pictures of a test part measure the models: all, or MOST_TEST drawn at random."""
    return np.sort(np.random.RandomState(seed).permutation(count)[:MOST_TEST])


def keep_held_out(rows: RoleRows, held_out: NDArray[np.bool_]) -> RoleRows:
    """Measure on the labelled pictures that an earlier fit has measured itself on, as far as they are still there."""
    if not held_out.any():
        return rows
    return rows._replace(labeled=np.flatnonzero(~held_out), test=np.flatnonzero(held_out))


def _hold_out(
    labels: NDArray[np.int32],
    groups: Rows,
    rows: Rows,
    share: float,
    most: int,
    least: int,
    draw: np.random.RandomState,
) -> tuple[Rows, Rows]:
    """The rows that stay and those that are held out: a share of each class that has at least `least` groups.

    From such a class at least one group is held out, and at least one stays.
    """
    share = min(share, most / max(len(rows), 1))
    held: list[Rows] = []
    for label in np.unique(labels[rows]):
        of_class = rows[labels[rows] == label]
        order = draw.permutation(np.unique(groups[of_class]))
        if len(order) >= least:
            count = min(max(1, round(share * len(order))), len(order) - 1)
            held.append(rows[np.isin(groups[rows], order[:count])])
    taken = np.unique(np.concatenate([np.arange(0), *held]))
    left = np.setdiff1d(rows, taken)
    # A group may span classes (one picture with two labels) and so take a class's last picture: put it back.
    last_of_class = [row for row in taken if not np.any(labels[left] == labels[row])]
    back = np.isin(groups[taken], groups[np.array(last_of_class, np.int64)])
    return np.sort(np.concatenate([left, taken[back]])), taken[~back]


def group_copies(survey: Survey, readable: Rows) -> Rows:
    """A group number for each picture; copies share one: equal pixels, or a perceptual hash that few pictures share."""
    hashes, digests = survey.hashes[readable].tolist(), [digest.tobytes() for digest in survey.digests[readable]]
    common = Counter(hashes)
    keys: Sequence[object] = [h if common[h] <= MOST_COPIES else d for h, d in zip(hashes, digests, strict=True)]
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)
