"""Who is labelled, for one seed: rows of the pictures that a source labels, drawn as the settings say."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.data.sources.features import Features
from metapl.schema import ConfigError

Rows = NDArray[np.int64]
Labels = NDArray[np.int32]


class Drawn(NamedTuple):
    """The draw of one seed."""

    labeled: Rows
    labels: Labels  # of the labelled rows, with noise where the settings ask for it
    unlabeled: Rows


def held_out(labels: Labels, count: int) -> tuple[Rows, Rows]:
    """Rows to train on and rows to validate on; the same for every seed."""
    if count >= len(labels):
        raise ConfigError(f"validate_on = {count:,} leaves none of the {len(labels):,} labelled pictures to train on")
    order = np.random.RandomState(0).permutation(len(labels))
    return np.sort(order[count:]), np.sort(order[:count])


def draw(config: Features, labels: Labels, rows: Rows, classes: int, seed: int) -> Drawn:
    """Draw the labelled rows of each class and the unlabelled rows; `labels` are those of all rows."""
    known = classes - config.foreign_classes
    if known < 2:
        raise ConfigError(f"foreign_classes = {config.foreign_classes} leaves {known} of {classes} classes; at least 2")
    random = np.random.RandomState(seed)
    labeled, unlabeled = [], []
    for number in range(classes):
        own = random.permutation(rows[labels[rows] == number])
        share = _share(config.imbalance, number, classes)
        own = own[: max(1, round(len(own) * share))]
        wanted = max(1, round(config.labels_per_class * share)) if number < known else 0
        if len(own) < wanted:
            raise ConfigError(f"labels_per_class = {wanted}, but class {number} has {len(own)} pictures to draw from")
        labeled.append(own[:wanted])
        unlabeled.append(own[wanted:])
    chosen, others = np.concatenate(labeled), random.permutation(np.concatenate(unlabeled))
    others = others[: config.unlabeled] if config.unlabeled else others
    if not len(others):
        raise ConfigError("no unlabelled picture is left: lower labels_per_class")
    return Drawn(chosen, noisy(labels[chosen], config.label_noise, known, random), np.sort(others))


def noisy(labels: Labels, share: float, classes: int, random: np.random.RandomState) -> Labels:
    """Replace a share of the labels by a random other class."""
    wrong = random.permutation(len(labels))[: round(share * len(labels))]
    shifted = labels.copy()
    shifted[wrong] = (labels[wrong] + random.randint(1, classes, len(wrong))) % classes
    return shifted


def _share(imbalance: float, number: int, classes: int) -> float:
    """What part of a class's pictures is used: 1 for the first class, 1 / imbalance for the last."""
    return float(imbalance ** (-number / max(classes - 1, 1)))
