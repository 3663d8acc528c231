"""Unlabelled pictures in places where nobody has labelled anything are left out one by one, and others hardly ever."""

import numpy as np

from metapl.fit import encoded, leave_out_foreign

RANDOM = np.random.default_rng(0)
CENTRES = RANDOM.normal(size=(4, 16)) * 3


def familiar(count: int) -> np.ndarray:
    return (CENTRES[np.arange(count) % 4] + RANDOM.normal(size=(count, 16))).astype(np.float32)


LABELED = familiar(100)
FOREIGN = (RANDOM.normal(size=16) + 0.2 * RANDOM.normal(size=(80, 16))).astype(np.float32)  # a place of their own


def test_foreign_pictures_are_found_and_familiar_ones_stay():
    found = leave_out_foreign.find(LABELED, np.concatenate([familiar(400), FOREIGN]), np.arange(480))
    assert set(range(400, 480)) <= set(found.places)
    assert len(found.places) <= 84
    assert found.labeled_near == sorted(found.labeled_near)
    assert max(found.labeled_near) <= 1


def test_pictures_of_one_kind_are_hardly_ever_left_out():
    left_out = [len(leave_out_foreign.find(LABELED, familiar(400), np.arange(400)).rows) for _ in range(20)]
    assert np.mean(left_out) < 4  # 1 %


def test_few_labelled_pictures_say_nothing_about_what_is_foreign():
    assert leave_out_foreign.find(LABELED[:20], FOREIGN, np.arange(80)).rows == []
    assert leave_out_foreign.find(LABELED, FOREIGN[:0], np.arange(0)).rows == []


def test_what_was_left_out_is_kept_for_the_next_session_and_listed(tmp_path):
    assert leave_out_foreign.read(tmp_path).rows == []
    found = leave_out_foreign.find(LABELED, np.concatenate([FOREIGN, familiar(400)]), np.arange(480) + 7)
    leave_out_foreign.write(tmp_path, found)  # all but the first seven were encoded
    assert leave_out_foreign.read(tmp_path) == found
    assert found.rows == [place + 7 for place in found.places]
    names, labels = [f"{i}.png" for i in range(480)], (np.arange(100) % 4).astype(np.int32)
    first = leave_out_foreign.listed(tmp_path, names, labels, ("a", "b", "c", "d"))[0]
    assert first["path"] == f"{found.places[0]}.png"
    assert first["nearest"] == "abcd"[found.nearest[0] % 4]


def test_rows_that_are_left_out_keep_names_and_features_together():
    nothing = np.zeros((0, 2), np.float32)
    none = np.zeros(0, np.int32)
    values = np.arange(12, dtype=np.float32).reshape(6, 2)
    every = np.arange(6)
    whole = encoded.Encoded(None, nothing, none, nothing, none, nothing, none, values, every, every, every, 0)
    some = encoded.without(whole, np.array([1, 4]))
    np.testing.assert_array_equal(some.unlabeled[some.judged], values[some.judged_pictures])
    assert some.judged_pictures.tolist() == [0, 2, 3, 5]
