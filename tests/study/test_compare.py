"""Which comparisons a study makes, and which of them it corrects."""

import numpy as np
import pytest

from metapl.evaluate.statistics import holm
from metapl.study.compare import comparisons
from metapl.study.settings import Arm, Pair, Study, StudyCase


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
