"""A study's tables and its page: right numbers, escaped names, nothing from elsewhere."""

import dataclasses
import json

import numpy as np
import pytest
from matplotlib import rcParams
from matplotlib.figure import Figure

from metapl.study import figure, forest, report
from metapl.study.compare import comparisons
from metapl.study.report import Tables
from metapl.study.settings import Arm, Curve, FigureSettings, Pair, PaperScores, Study, StudyCase

NASTY = "<script>alert(1)</script> | `x`"


@pytest.fixture
def study() -> Study:
    paper = {"x": PaperScores(96.11, 0.07, top5_accuracy=99.5)}
    arms = {"a": Arm("two_moons_mpl", title=NASTY, paper=paper), "b": Arm("two_moons_mpl", title="control")}
    return Study("A title", "A question.", 3, 5, None, {"x": StudyCase("few labels")}, arms, (Pair("a", "b"),))


@pytest.fixture
def accuracies():
    return {("x", "a"): np.array([80.0, 82.0, 84.0]), ("x", "b"): np.array([79.0, 80.0, 84.5])}


def test_the_page_and_the_text_have_the_numbers_and_show_names_as_text(study, accuracies, tmp_path):
    top5 = {("x", "a"): np.array([98.0, 99.0, 98.5])}
    tables = Tables({"accuracy": accuracies, "top5_accuracy": top5}, "val", missing=2)
    markdown, page = report.write(study, tmp_path, tables, "metapl study x")
    for text in (markdown.read_text(), page.read_text()):
        assert "82.00 ± 2.00" in text
        assert "96.11 ± 0.07" in text
        assert "98.50 ± 0.50" in text
        assert "99.50" in text
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


def test_confirmatory_comparisons_are_answered_first_in_words(study, tmp_path):
    arms = {"a": Arm("two_moons_mpl", title="ours", about="What we do."), "b": Arm("two_moons_mpl", title="control")}
    pairs = (Pair("a", "b", "confirmatory", title="ours or not"), Pair("b", "a"))
    shown = dataclasses.replace(study, arms=arms, pairs=pairs, cases={"x": StudyCase("few"), "y": StudyCase("many")})
    near, gain = np.array([80.0, 81.0, 82.0, 83.0]), np.array([5.0, 5.1, 5.2, 5.3])
    accuracies = {
        ("x", "a"): near + gain,
        ("x", "b"): near,
        ("y", "a"): near + np.array([1.0, -1.1, 1.0, -1.0]),
        ("y", "b"): near,
    }
    assert [words for _, words, _ in report.answers(shown, comparisons(shown, accuracies))] == [
        "better",
        "no difference shown",
    ]
    worse = accuracies | {("x", "a"): near - gain}
    assert report.answers(shown, comparisons(shown, worse))[0][1] == "worse"
    del accuracies["y", "b"]
    titles, lines = report.accuracy_table(shown, Tables({"accuracy": accuracies}, "test"))
    assert titles == ["arm", "few", "many"]
    assert lines == [["ours", "86.65 ± 1.42", "81.47 ± 1.33"], ["control", "81.50 ± 1.29", "–"]]
    for text in (
        path.read_text() for path in report.write(shown, tmp_path, Tables({"accuracy": accuracies}, "test"), "")
    ):
        assert "few: ours or not" in text
        assert "81.50 → 86.65" in text
    assert "What we do." in (tmp_path / "study.html").read_text()


def test_one_seed_has_no_spread():
    result = report.arm_results({("x", "a"): np.array([80.0])})[0]
    assert report.accuracy(result) == "80.00"


@pytest.mark.parametrize(
    ("kind", "words"),
    [("bars", ["81.2", "control"]), ("lines", ["share of labels", "control"]), ("curves", ["student", "step"])],
)
def test_a_figure_shows_what_was_measured(study, accuracies, kind, words, monkeypatch):
    monkeypatch.setitem(rcParams, "svg.fonttype", "none")  # letters as text
    arms = study.arms | {"a": Arm("two_moons_mpl", title="MPL")}
    settings = FigureSettings(kind, "A figure", "share of labels", (Curve("a", "student_agreement", "student"),))
    shown = dataclasses.replace(study, figure=settings, arms=arms, cases={"x": StudyCase("few labels", x=10.0)})
    curves = {("x", 0): (np.array([50, 100]), np.array([0.5, 0.75]))}
    drawn = figure.draw(shown, accuracies, curves)
    assert all(word in drawn for word in ["A figure", *words])
    assert figure.draw(study, accuracies, curves) == ""


def test_curves_are_means_over_the_seeds_in_the_first_stage(study, tmp_path):
    rows = [(0, 50, 0.25), (0, 50, 0.75), (0, 100, 1.0), (1, 50, 0.0)]
    lines = [json.dumps({"stage": stage, "step": step, "student_agreement": value}) for stage, step, value in rows]
    (tmp_path / "metrics.jsonl").write_text("\n".join([*lines, json.dumps({"stage": 0, "step": 50, "loss": 3.0})]))
    settings = FigureSettings("curves", curves=(Curve("a", "student_agreement"),))
    shown = dataclasses.replace(study, figure=settings)
    ((key, (steps, means)),) = figure.read_curves(shown, lambda case, arm: tmp_path).items()
    assert (key, steps.tolist(), means.tolist()) == (("x", 0), [50, 100], [0.5, 1.0])


@pytest.mark.parametrize(
    ("xs", "scale"), [([1.0, 4.0, 400.0], "log"), ([10.0, 100.0], "linear"), ([0.0, 50.0], "linear")]
)
def test_cases_that_reach_far_have_equal_distances_for_equal_ratios(xs, scale):
    axes = Figure().add_subplot()
    figure._place_cases(axes, xs)
    assert axes.get_xscale() == scale
    if scale == "log":
        assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "4", "400"]
