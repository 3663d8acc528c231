"""Cross-validation over the labelled pictures: which fold each of them is in, and one fold's dataset.

Folds have equal shares of every class, as far as its pictures go. Pictures with the same features, which are copies of
each other, are in one fold: a copy in training would make the validation too easy.
"""

import warnings

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedGroupKFold

from metapl.data.sources.dataset import Dataset

Rows = NDArray[np.int64]


def fold_of(features: NDArray[np.floating], labels: NDArray[np.int32], folds: int) -> Rows:
    """The fold of each labelled picture; `features` are those of the eval view [N, D]."""
    _, groups = np.unique(np.asarray(features), axis=0, return_inverse=True)
    fold = np.zeros(len(labels), np.int64)
    cutter = StratifiedGroupKFold(folds, shuffle=True, random_state=0)
    with warnings.catch_warnings():  # a class with fewer pictures than folds is in some folds only
        warnings.filterwarnings("ignore", message="The least populated class")
        for number, (_, rows) in enumerate(cutter.split(np.zeros(len(labels)), labels, groups.ravel())):
            fold[rows] = number
    return fold


def held_fold(seed: int, folds: int) -> int | None:
    """The fold that a seed is not trained on; None: it is trained on all."""
    number = seed % (2 * folds)
    return number if number < folds else None


def in_folds(dataset: Dataset, fold: Rows, folds: int, seed: int) -> Dataset:
    """The dataset of a seed, with the fold of each labelled picture. All have the same shape: seeds train at once.

    The validation part of a seed that trains on all folds is the first fold, which it has seen.
    """
    labeled = np.asarray(dataset.labeled)
    number = held_fold(seed, folds)
    rows = _repeated(np.flatnonzero(fold != number), len(fold))
    held = _repeated(np.flatnonzero(fold == (number or 0)), int(np.bincount(fold, minlength=folds).max()))
    return dataset._replace(
        labeled=labeled[rows],
        labels=dataset.labels[rows],
        val=labeled[held],
        val_labels=dataset.labels[held],
    )


def _repeated(rows: Rows, count: int) -> Rows:
    """So many rows: all, and some of them again; if there is none, row 0."""
    order = np.random.RandomState(0).permutation(rows)
    return np.sort(np.resize(order if len(order) else np.zeros(1, np.int64), count))
