"""Intervals and p-values of paired differences, and Holm's correction, against scipy and by hand."""

import numpy as np
import pytest
from scipy import stats

from metapl.evaluate.statistics import compared, holm, p_value, paired, wilson


def test_the_interval_is_students():
    draw = np.random.default_rng(0)
    ours, theirs = draw.normal(0.9, 0.1, 30), draw.normal(0.8, 0.1, 30)
    result = paired(ours, theirs)
    reference = stats.ttest_rel(ours, theirs).confidence_interval(0.95)
    assert (result.low, result.high) == pytest.approx((reference.low, reference.high))
    assert result.mean == pytest.approx(np.mean(ours - theirs))
    assert result.better == np.sum(ours > theirs)
    assert result.worse == np.sum(ours < theirs)


def test_one_data_set_says_nothing_about_the_spread():
    alone = paired(np.array([0.9]), np.array([0.8]))
    assert (alone.low, alone.high) == (None, None)
    assert alone.mean == pytest.approx(0.1)


def test_intervals_hold_the_truth_about_19_times_in_20():
    draw = np.random.default_rng(1)
    hits = 0
    for _ in range(400):
        result = paired(draw.normal(0.1, 1, 10), np.zeros(10))
        hits += result.low <= 0.1 <= result.high
    assert 0.92 < hits / 400 < 0.98


@pytest.mark.parametrize(("right", "n"), [(0, 5), (5, 5), (3, 7), (90, 100)])
def test_the_ends_of_wilsons_interval_are_1_96_of_their_own_deviations_away(right, n):
    """Wilson's score: the ends p solve |share − p| = z √(p (1 − p) / n)."""
    proportion = wilson(right, n)
    assert proportion.low <= proportion.share == right / n <= proportion.high
    for end in (proportion.low, proportion.high):
        assert abs(proportion.share - end) == pytest.approx(1.959964 * (end * (1 - end) / n) ** 0.5, abs=1e-6)
    with pytest.raises(ValueError, match="n must be at least 1, got 0"):
        wilson(0, 0)


def test_two_classifiers_that_agree_are_not_known_to_be_equal():
    same = compared(np.ones(10, bool), np.ones(10, bool))
    assert same.difference == 0
    assert same.low < -0.1 < 0.1 < same.high
    assert same.p == 1


def test_intervals_of_differences_hold_the_truth_about_19_times_in_20():
    draw, hits = np.random.default_rng(0), 0
    for _ in range(1000):
        kind = draw.choice(4, 80, p=[0.6, 0.2, 0.1, 0.1])  # both right, only the first, only the second, none
        found = compared(np.isin(kind, (0, 1)), np.isin(kind, (0, 2)))
        hits += found.low <= 0.1 <= found.high
    assert 930 <= hits <= 975


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    assert holm([]) == []


def test_p_is_that_of_the_paired_t_test():
    a, b = np.random.default_rng(0).normal(size=(2, 8))
    assert p_value(a - b) == pytest.approx(stats.ttest_rel(a, b).pvalue)
    assert p_value(np.zeros(3)) == 1.0
    assert p_value(np.ones(3)) == 0.0
    assert p_value(np.ones(1)) is None
