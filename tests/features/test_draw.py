"""Who is labelled: counts, noise, imbalance, foreign classes; drawn by the seed alone."""

import numpy as np
import pytest

from metapl.data.sources.features import Features
from metapl.features.draw import draw, held_out, noisy
from metapl.schema import ConfigError

LABELS = np.repeat(np.arange(5, dtype=np.int32), 40)
ROWS = np.arange(200)


def drawn(seed=3, **settings):
    return draw(Features(**({"labels_per_class": 4} | settings)), LABELS, ROWS, 5, seed)


def test_each_class_has_its_labels_and_the_rest_is_unlabelled():
    some = drawn()
    assert np.bincount(LABELS[some.labeled]).tolist() == [4] * 5
    np.testing.assert_array_equal(some.labels, LABELS[some.labeled])
    assert sorted([*some.labeled, *some.unlabeled]) == ROWS.tolist()


def test_another_seed_draws_others_and_the_same_seed_the_same():
    assert set(drawn(4).labeled) != set(drawn(3).labeled)
    np.testing.assert_array_equal(drawn(3).labeled, drawn(3).labeled)


def test_noise_changes_that_share_of_the_labels_and_never_to_the_same_class():
    labels = np.repeat(np.arange(5, dtype=np.int32), 20)
    shifted = noisy(labels, 0.3, 5, np.random.RandomState(0))
    assert (shifted != labels).sum() == 30
    assert set(shifted) <= set(range(5))


def test_classes_fall_geometrically():
    some = drawn(imbalance=4.0, labels_per_class=8)
    counts = np.bincount(LABELS[some.labeled])
    assert counts[0] == 8
    assert counts[-1] == 2
    assert (np.diff(counts) <= 0).all()
    assert np.bincount(LABELS[some.unlabeled])[-1] == 8


def test_foreign_classes_are_unlabelled_only():
    some = drawn(foreign_classes=2)
    assert set(LABELS[some.labeled]) == {0, 1, 2}
    assert set(LABELS[some.unlabeled]) == set(range(5))


def test_at_most_so_many_unlabelled():
    assert len(drawn(unlabeled=33).unlabeled) == 33


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"labels_per_class": 41}, "class 0 has 40 pictures"),
        ({"foreign_classes": 4}, "leaves 1 of 5 classes"),
        ({"labels_per_class": 40}, "no unlabelled picture is left"),
    ],
)
def test_what_cannot_be_drawn_is_an_error(settings, words):
    with pytest.raises(ConfigError, match=words):
        drawn(**settings)


def test_held_out_rows_are_apart_and_the_same_for_all():
    rows, validation = held_out(LABELS, 50)
    assert len(validation) == 50
    assert not set(rows) & set(validation)
    with pytest.raises(ConfigError, match="leaves none"):
        held_out(LABELS, 200)
