"""Paired differences and Holm's correction, against scipy and by hand."""

import numpy as np
import pytest
from scipy import stats

from metapl.study.compare import comparisons, holm, p_value
from metapl.study.settings import Arm, Pair, Study, StudyCase


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


def test_only_confirmatory_comparisons_are_corrected_and_cases_stay_apart():
    arms = {name: Arm(preset="two_moons_mpl") for name in "abc"}
    pairs = (Pair("a", "c", "confirmatory"), Pair("b", "c"))
    study = Study("t", "q", 3, 0, None, {"x": StudyCase(), "y": StudyCase()}, arms, pairs)
    draw = np.random.default_rng(1)
    accuracies = {(case, arm): draw.normal(80, 1, 3) for case in "xy" for arm in "abc"}
    del accuracies["y", "b"]
    found = comparisons(study, accuracies)
    assert [(one.case, one.arm, one.kind) for one in found] == [
        ("x", "a", "confirmatory"),
        ("x", "b", "exploratory"),
        ("y", "a", "confirmatory"),
    ]
    assert found[1].corrected is None
    assert [found[0].corrected, found[2].corrected] == pytest.approx(holm([found[0].p, found[2].p]))
    expected = accuracies["x", "a"] - accuracies["x", "c"]
    assert found[0].difference.mean == pytest.approx(expected.mean())
