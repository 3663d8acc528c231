"""Intervals of paired differences."""

import numpy as np
import pytest
from scipy import stats

from metapl.statistics import paired


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
