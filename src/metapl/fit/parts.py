"""Who is trained on, who calibrates and who is asked at the end, where the data do not say.

What a verdict is measured on is trained on in no way and calibrates nothing. Pictures with the same pixels, or that
look the same, stay together: a copy of a training picture is no test. A class of one or two pictures keeps them all for
training, unless nothing could be measured then: it is not measured, and the verdict says so.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.data.audit.survey import Survey
from metapl.schema import ConfigError

TEST_SHARE, VAL_SHARE = 0.2, 0.1  # of each class's labelled pictures
MOST_TEST, MOST_VAL = 5000, 2000  # more would make no interval much narrower
ALIKE = 10  # pictures of one perceptual hash that are taken for copies; more of them are merely simple

Rows = NDArray[np.int64]
Origin = Literal["test part", "val part", "labelled pictures"]


class Division(NamedTuple):
    """Rows of the labelled and of the val pictures by what they are for."""

    train: Rows  # of the labelled
    val: Rows  # of the labelled
    test: Rows  # of the labelled
    val_kept: Rows  # of the val part: they calibrate
    val_tests: Rows  # of the val part: they are asked at the end
    measured_on: Origin


def divide(
    labels: NDArray[np.int32], groups: Rows, val_labels: NDArray[np.int32], has_test: bool, seed: int
) -> Division:
    """Divide what there is; `groups` has the same number for labelled pictures that belong together."""
    draw, nobody = np.random.RandomState(seed), np.arange(0)
    everyone, val = np.arange(len(labels)), np.arange(len(val_labels))
    if has_test and len(val):
        return Division(everyone, nobody, nobody, val, nobody, "test part")
    if has_test:
        train, held = _hold_out(labels, groups, everyone, VAL_SHARE, MOST_VAL, 4, draw)
        return Division(train, held, nobody, nobody, nobody, "test part")
    if len(val) > 1:
        # Two thirds are asked, one calibrates: a single number needs fewer pictures than an accuracy.
        asked, kept = _hold_out(val_labels, val, val, 1 / 3, MOST_VAL, 2, draw)
        return Division(everyone, nobody, nobody, kept, asked, "val part")
    rest, test = _hold_out(labels, groups, everyone, TEST_SHARE, MOST_TEST, 3, draw)
    if not len(test):
        rest, test = _hold_out(labels, groups, everyone, TEST_SHARE, MOST_TEST, 2, draw)
    if not len(test):
        raise ConfigError(
            "no class has two different labelled pictures, so that nothing could be held out to measure the result on; "
            "label more, or add a test part (docs/data.md)"
        )
    train, held = _hold_out(labels, groups, rest, VAL_SHARE / (1 - TEST_SHARE), MOST_VAL, 4, draw)
    return Division(train, held, test, val, nobody, "labelled pictures")


def _hold_out(
    labels: NDArray[np.int32],
    groups: Rows,
    rows: Rows,
    share: float,
    most: int,
    least: int,
    draw: np.random.RandomState,
) -> tuple[Rows, Rows]:
    """Take a share of each class that has at least `least` groups; at least one, and never the class's last group."""
    share = min(share, most / max(len(rows), 1))
    held: list[Rows] = []
    for label in np.unique(labels[rows]):
        own = rows[labels[rows] == label]
        order = draw.permutation(np.unique(groups[own]))
        if len(order) >= least:
            count = min(max(1, round(share * len(order))), len(order) - 1)
            held.append(rows[np.isin(groups[rows], order[:count])])
    taken = np.unique(np.concatenate([np.arange(0), *held]))
    left = np.setdiff1d(rows, taken)
    # A group across classes (one picture with two labels) may have taken a class's last picture along.
    gone = [row for row in taken if not np.any(labels[left] == labels[row])]
    back = np.isin(groups[taken], groups[np.array(gone, np.int64)])
    return np.sort(np.concatenate([left, taken[back]])), taken[~back]


def alike(survey: Survey, readable: Rows) -> Rows:
    """Number the pictures so that copies share a number: equal pixels, or a perceptual hash that few share."""
    hashes, digests = survey.hashes[readable].tolist(), [digest.tobytes() for digest in survey.digests[readable]]
    common = Counter(hashes)
    keys: Sequence[object] = [h if common[h] <= ALIKE else d for h, d in zip(hashes, digests, strict=True)]
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)
