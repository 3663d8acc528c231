"""Held-out examples are validated on, and trained on in no way."""

import numpy as np
import pytest

from metapl.data.sources.dataset import Dataset
from metapl.data.splits.hold_out import hold_out
from metapl.schema import ConfigError


def dataset(truth: np.ndarray | None) -> Dataset:
    """20 unlabelled examples; the first four are the labelled ones, too, as in some splits."""
    points = np.arange(40, dtype=np.float32).reshape(20, 2)
    labels = np.arange(4, dtype=np.int32) % 2
    return Dataset(points[:4], labels, points, points[:3] + 100, labels[:3], ("a", "b"), truth=truth)


TRUTH = (np.arange(20) % 2).astype(np.int32)


def test_they_leave_the_unlabelled_part_with_their_labels():
    before = dataset(TRUTH)
    after = hold_out(before, 6, seed=0)
    rows = (after.val[:, 0] / 2).astype(int)
    np.testing.assert_array_equal(after.val_labels, TRUTH[rows])
    together = np.concatenate([after.val, after.unlabeled])
    np.testing.assert_array_equal(together[np.argsort(together[:, 0])], before.unlabeled)
    np.testing.assert_array_equal(after.truth, TRUTH[(after.unlabeled[:, 0] / 2).astype(int)])
    np.testing.assert_array_equal(after.test, before.test)


@pytest.mark.parametrize("seed", range(5))
def test_a_labelled_example_is_never_validated_on(seed):
    after = hold_out(dataset(TRUTH), 16, seed)
    assert after.val[:, 0].min() >= 8


def test_the_seed_chooses():
    chosen = [hold_out(dataset(TRUTH), 6, seed).val.tolist() for seed in (0, 0, 1)]
    assert chosen[0] == chosen[1] != chosen[2]


def test_examples_of_unknown_class_stay():
    truth = np.where(np.arange(20) < 10, TRUTH, -1).astype(np.int32)
    assert hold_out(dataset(truth), 6, 0).val[:, 0].max() < 20


@pytest.mark.parametrize(("truth", "count"), [(None, 1), (TRUTH, 17), (TRUTH, 20), (np.full(20, -1, np.int32), 1)])
def test_more_than_there_are_is_refused(truth, count):
    with pytest.raises(ConfigError, match="validation examples were requested, but only"):
        hold_out(dataset(truth), count, 0)
