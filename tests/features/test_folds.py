"""Folds: every labelled picture is held out once, copies together, and all seeds have as many pictures."""

import numpy as np

from metapl.data.sources.dataset import Dataset
from metapl.features.folds import fold_of, in_folds

LABELS = np.repeat(np.arange(3), (7, 5, 2)).astype(np.int32)
FEATURES = np.random.default_rng(0).normal(size=(14, 3, 4)).astype(np.float16)


def dataset():
    return Dataset(FEATURES, LABELS, FEATURES, FEATURES[:2], LABELS[:2], ("a", "b", "c"))


def test_each_picture_is_held_out_by_one_seed_and_trains_the_others():
    folds = [in_folds(dataset(), fold_of(FEATURES[:, 0], LABELS, 4), 4, seed) for seed in range(4)]
    held = [{row.tobytes() for row in fold.val} for fold in folds]
    assert sorted(name for names in held for name in names) == sorted(row.tobytes() for row in FEATURES)
    for fold, names in zip(folds, held, strict=True):
        trained = {row.tobytes() for row in fold.labeled}
        assert not trained & names
        assert len(trained | names) == 14
        by_name = {row.tobytes(): label for row, label in zip(FEATURES, LABELS, strict=True)}
        assert [by_name[row.tobytes()] for row in fold.labeled] == fold.labels.tolist()
        assert [by_name[row.tobytes()] for row in fold.val] == fold.val_labels.tolist()
    whole = [in_folds(dataset(), fold_of(FEATURES[:, 0], LABELS, 4), 4, seed) for seed in range(4, 8)]
    assert all({row.tobytes() for row in fold.labeled} == {row.tobytes() for row in FEATURES} for fold in whole)
    assert len({(fold.labeled.shape, fold.val.shape) for fold in (*folds, *whole)}) == 1


def test_classes_are_spread_and_copies_stay_together():
    fold = fold_of(FEATURES[:, 0], LABELS, 4)
    assert all(np.bincount(fold[label == LABELS], minlength=4).max() <= 2 for label in range(3))
    features = FEATURES[:, 0].copy()
    features[6] = features[0]
    assert fold_of(features, LABELS, 4)[0] == fold_of(features, LABELS, 4)[6]
