"""Which comparisons a study makes, and which of them it corrects."""

import numpy as np
import pytest
from scipy import stats

from metapl.evaluate.statistics import holm
from metapl.study.compare import ALL_CASES, comparisons
from metapl.study.settings import Arm, Pair, Study, StudyCase


def test_only_confirmatory_comparisons_are_corrected_and_cases_stay_apart():
    arms = {name: Arm(preset="two_moons_mpl") for name in "abc"}
    pairs = (Pair("a", "c", "confirmatory"), Pair("b", "c"))
    study = Study("t", "q", 3, 0, None, {"x": StudyCase(), "y": StudyCase()}, arms, pairs)
    draw = np.random.default_rng(1)
    accuracies = {(case, arm): draw.normal(80, 1, 3) for case in "xy" for arm in "abc"}
    del accuracies["y", "b"]
    found = comparisons(study, accuracies)
    assert [(one.case, one.pair.arm, one.pair.kind) for one in found] == [
        ("x", "a", "confirmatory"),
        ("x", "b", "exploratory"),
        ("y", "a", "confirmatory"),
    ]
    assert found[1].corrected is None
    assert [found[0].corrected, found[2].corrected] == pytest.approx(holm([found[0].p, found[2].p]))
    expected = accuracies["x", "a"] - accuracies["x", "c"]
    assert found[0].difference.mean == pytest.approx(expected.mean())


def test_missing_runs_do_not_make_p_smaller():
    arms = {name: Arm(preset="two_moons_mpl") for name in "ab"} | {"c": Arm(preset="two_moons_mpl", cases=("x",))}
    pairs = (
        Pair("a", "b", "confirmatory"),
        Pair("c", "b", "confirmatory"),
        Pair("a", "b", "confirmatory", over="cases"),
    )
    study = Study("t", "q", 3, 0, None, {"x": StudyCase(), "y": StudyCase()}, arms, pairs)
    draw = np.random.default_rng(3)
    accuracies = {("x", arm): draw.normal(mean, 0.1, 3) for arm, mean in (("a", 80), ("b", 79.5))}
    (one,) = (one for one in comparisons(study, accuracies) if one.case == "x")
    assert one.corrected == pytest.approx(4 * one.p)  # a − b in x and y, c − b in x, a − b over cases


def test_a_pair_over_cases_counts_each_case_once():
    arms = {name: Arm(preset="two_moons_mpl") for name in "ab"}
    study = Study("t", "q", 3, 0, None, {case: StudyCase() for case in "xyz"}, arms, (Pair("a", "b", over="cases"),))
    draw = np.random.default_rng(2)
    accuracies = {(case, arm): draw.normal(80, 1, seeds) for case, seeds in (("x", 2), ("y", 9)) for arm in "ab"}
    (found,) = comparisons(study, accuracies)
    means = {arm: [accuracies[case, arm].mean() for case in "xy"] for arm in "ab"}
    assert (found.case, found.difference.n) == (ALL_CASES, 2)
    assert found.difference.mean == pytest.approx(np.mean(means["a"]) - np.mean(means["b"]))
    assert found.means == pytest.approx((np.mean(means["b"]), np.mean(means["a"])))
    assert found.p == pytest.approx(stats.ttest_rel(means["a"], means["b"]).pvalue)
    assert comparisons(study, {}) == []
