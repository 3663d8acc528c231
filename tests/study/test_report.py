"""A study's tables and its page: right numbers, escaped names, nothing from elsewhere."""

import numpy as np
import pytest

from metapl.study import forest, report
from metapl.study.compare import comparisons
from metapl.study.settings import Arm, Pair, Study, StudyCase

NASTY = "<script>alert(1)</script> | `x`"


@pytest.fixture
def study() -> Study:
    arms = {"a": Arm("two_moons_mpl", NASTY, paper=96.11, paper_std=0.07), "b": Arm("two_moons_mpl", "control")}
    return Study("A title", "A question.", 3, 5, None, {"x": StudyCase("few labels")}, arms, (Pair("a", "b"),))


@pytest.fixture
def accuracies():
    return {("x", "a"): np.array([80.0, 82.0, 84.0]), ("x", "b"): np.array([79.0, 80.0, 84.5])}


def test_the_page_and_the_text_have_the_numbers_and_show_names_as_text(study, accuracies, tmp_path):
    markdown, page = report.write(study, tmp_path, accuracies, "val", "metapl study x", missing=2)
    for text in (markdown.read_text(), page.read_text()):
        assert "82.00 ± 2.00" in text
        assert "96.11 ± 0.07" in text
        assert "+0.83 [-2.29, +3.96]" in text
        assert "2 of 2 runs are missing" in text
        assert "alidation accuracy" in text
        assert "<script>" not in text
    assert "http" not in page.read_text().replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    ).replace("https://matplotlib.org", "")


def test_a_collapse_does_not_flatten_the_plot(study, accuracies):
    small, usual = forest.draw(study, comparisons(study, accuracies)), comparisons(study, accuracies)
    collapsed = {("x", "a"): np.array([10.0, 10.0, 10.1]), ("x", "b"): accuracies["x", "b"]}
    assert (
        forest.reach([*usual, *comparisons(study, collapsed)])
        == forest.reach(usual)
        == pytest.approx(1.1 * 3.96, abs=0.01)
    )
    assert "<svg" in small
    assert "<svg" in forest.draw(study, comparisons(study, collapsed))
    assert forest.draw(study, []) == ""


def test_one_seed_has_no_spread():
    result = report.arm_results({("x", "a"): np.array([80.0])})[0]
    assert report.accuracy(result) == "80.00"
