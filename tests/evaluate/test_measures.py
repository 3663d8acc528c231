"""Scores against the same thing counted by hand."""

import math

import numpy as np
import pytest

from metapl.evaluate import measures

PROBABILITIES = np.array([[0.7, 0.2, 0.1], [0.1, 0.32, 0.58], [0.65, 0.05, 0.3], [0.2, 0.35, 0.45]])
LABELS = np.array([0, 2, 1, 1], np.int32)
LOGITS = (np.log(PROBABILITIES) + np.array([[3], [-2], [0], [5]])).astype(np.float32)  # a shift changes no probability


def test_accuracy_and_nll():
    found = measures.score(LOGITS, LABELS)
    assert found.accuracy == 0.5
    assert found.nll == pytest.approx(-(math.log(0.7) + math.log(0.58) + math.log(0.05) + math.log(0.35)) / 4, rel=1e-6)
    assert found.top5_accuracy is None
    assert found.real_accuracy is None


def test_calibration_error_in_bins_of_a_fifteenth():
    """0.7 and 0.58 and 0.65 and 0.45 lie in the bins (10/15, 11/15], (8/15, 9/15], (9/15, 10/15] and (6/15, 7/15]."""
    expected = (abs(1 - 0.7) + abs(1 - 0.58) + abs(0 - 0.65) + abs(0 - 0.45)) / 4
    assert measures.score(LOGITS, LABELS).calibration_error == pytest.approx(expected, rel=1e-6)


def test_right_and_wrong_answers_of_one_bin_make_up_for_each_other():
    confidences = np.array([0.68, 0.70, 0.72, 1.0, 0.01])
    right = np.array([True, False, True, True, False])
    # One bin of three: accuracy 2/3, confidence 0.7; one of a sure and right answer; one of an unsure and wrong one.
    expected = 3 / 5 * abs(2 / 3 - 0.7) + 1 / 5 * 0 + 1 / 5 * 0.01
    assert measures.calibration_error(confidences, right) == pytest.approx(expected)


def test_the_edge_between_two_bins_belongs_to_the_lower_one():
    """Of 1/3 (right) and 0.35 (wrong), the first ends the bin (4/15, 5/15]: apart, the two do not make up."""
    found = measures.calibration_error(np.array([5 / 15, 0.35]), np.array([True, False]))
    assert found == pytest.approx((2 / 3 + 0.35) / 2)


def test_top5_counts_the_right_class_among_the_first_five():
    logits = np.array([[6, 5, 4, 3, 2, 1, 0]] * 4, np.float32)
    labels = np.array([0, 4, 5, 6], np.int32)
    assert measures.score(logits, labels).top5_accuracy == 2 / 4
    assert measures.score(np.zeros_like(logits), labels).top5_accuracy == 2 / 4  # who knows nothing gets no bonus
    assert measures.score(np.full_like(logits, np.nan), labels).top5_accuracy == 2 / 4  # nor does who has diverged


def test_real_takes_any_right_label_and_leaves_out_pictures_without_one():
    real = np.array([[0, 1, 0], [0, 1, 1], [0, 0, 0], [0, 0, 1]], bool)
    # The answers are 0, 2, 0, 2: wrong, one of two right ones, not counted, right though the old label says 1.
    assert measures.score(LOGITS, LABELS, real).real_accuracy == 2 / 3
    assert measures.score(LOGITS, LABELS, np.zeros_like(real)).real_accuracy is None


def test_confusion_and_accuracy_of_each_class():
    table = measures.confusion(LOGITS, LABELS)
    assert table.tolist() == [[1, 0, 0], [1, 0, 1], [0, 0, 1]]
    assert measures.per_class_accuracy(table) == [1.0, 0.0, 1.0]
    assert measures.per_class_accuracy(measures.confusion(LOGITS[:1], LABELS[:1])) == [1.0, None, None]


def test_answers_that_are_no_numbers_score_nan():
    found = measures.score(np.full((3, 3), np.nan, np.float32), np.zeros(3, np.int32))
    assert math.isnan(found.nll)
    assert math.isnan(found.calibration_error)


def test_huge_logits_stay_finite():
    found = measures.score(np.array([[1e30, 0], [0, 1e30]], np.float32), np.array([0, 0], np.int32))
    assert found.nll == pytest.approx(1e30 / 2, rel=1e-6)
