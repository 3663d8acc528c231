"""Which labelled pictures are held out."""

import numpy as np
import pytest

from metapl.fit.roles import assign_roles
from metapl.schema import ConfigError

NONE = np.zeros(0, np.int32)


def labels(*counts: int) -> np.ndarray:
    return np.repeat(np.arange(len(counts)), counts).astype(np.int32)


def alone(own: np.ndarray) -> np.ndarray:
    return np.arange(len(own))


@pytest.mark.parametrize("counts", [(10, 10), (100, 3), (1, 30), (3, 3, 3), (2, 2), (1, 2), (7,) * 300])
def test_every_class_stays_in_training_and_no_picture_has_two_roles(counts):
    own = labels(*counts)
    roles = assign_roles(own, alone(own), NONE, has_test=False, seed=0)
    assert set(own[roles.labeled]) == set(own)
    everyone = np.concatenate([roles.labeled, roles.test])
    assert sorted(everyone) == list(range(len(own)))
    assert len(roles.test)
    assert roles.measured_on == "labelled pictures"


def test_a_fifth_of_each_class_is_held_out_and_no_label_is_set_aside():
    own = labels(100, 50)
    roles = assign_roles(own, alone(own), NONE, has_test=False, seed=0)
    assert np.bincount(own[roles.test]).tolist() == [20, 10]
    assert np.bincount(own[roles.labeled]).tolist() == [80, 40]


def test_classes_of_one_or_two_pictures_keep_them_where_others_can_be_measured():
    own = labels(20, 2, 1)
    roles = assign_roles(own, alone(own), NONE, has_test=False, seed=0)
    assert set(own[roles.test]) == {0}


def test_copies_stay_together():
    own = labels(40, 40)
    groups = np.arange(80) // 4
    for seed in range(5):
        roles = assign_roles(own, groups, NONE, has_test=False, seed=seed)
        assert not set(groups[roles.labeled]) & set(groups[roles.test])


def test_a_copy_in_another_class_does_not_take_its_last_picture_along():
    own, groups = labels(5, 1), np.array([0, 1, 2, 3, 4, 0])
    for seed in range(10):
        roles = assign_roles(own, groups, NONE, has_test=False, seed=seed)
        assert 5 in roles.labeled


def test_a_given_test_part_is_the_test_and_every_label_trains():
    own = labels(30, 30)
    roles = assign_roles(own, alone(own), NONE, has_test=True, seed=0)
    assert (len(roles.test), len(roles.val_part_test), len(roles.labeled)) == (0, 0, 60)
    assert roles.measured_on == "test part"


def test_a_val_part_alone_is_divided_and_no_labelled_picture_is_lost():
    own, val = labels(5, 5), labels(30, 30)
    roles = assign_roles(own, alone(own), val, has_test=False, seed=0)
    assert len(roles.labeled) == 10
    assert (len(roles.val_part_val), len(roles.val_part_test)) == (20, 40)
    assert not set(roles.val_part_val) & set(roles.val_part_test)


def test_one_picture_of_each_class_cannot_be_measured():
    own = labels(1, 1, 1)
    with pytest.raises(ConfigError, match="none could be held out"):
        assign_roles(own, alone(own), NONE, has_test=False, seed=0)
