"""Drawings: where points are, what a thinned curve keeps, and that every drawing is well-formed."""

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from metapl.report import svg
from metapl.report.bars import Bar, Span, bars, spans
from metapl.report.heat_map import heat_map
from metapl.report.svg import Line

from .synthetic_runs import NASTY


def parsed(figure):
    return ElementTree.fromstring(f"<div>{figure.svg}</div>")


def test_a_thinned_curve_keeps_what_is_smallest_and_largest():
    x = np.arange(100_000, dtype=float)
    values = np.zeros(100_000)
    values[12_345], values[77_777] = 5, -3
    line = svg.thin("loss", x, values, (0.0, 1e5), 100)
    assert len(line.x) == 100
    assert (line.high.max(), line.low.min()) == (5, -3)
    assert line.middle[12] == pytest.approx(5 / 1000)


def test_what_is_not_finite_is_a_gap():
    values = np.array([1.0, 2.0, np.nan, 4.0, 5.0, 6.0])
    line = svg.thin("loss", np.arange(6.0), values, (0.0, 6.0), 6)
    assert np.isnan(line.middle[2])
    root = parsed(svg.line_chart("t", "d", [line], ("steps", "loss")))
    assert len(root[0].findall("path[@class='c0']")) == 2


def test_points_lie_where_the_axes_say():
    axes = svg.Axes((0.0, 10.0), (-1.0, 1.0))
    assert axes.left(np.array([0.0, 10.0])).tolist() == [svg.LEFT, svg.WIDTH - svg.RIGHT]
    assert axes.top(np.array([1.0, -1.0])).tolist() == [svg.TOP, svg.HEIGHT - svg.BOTTOM]
    log = svg.Axes((10.0, 1000.0), (0.0, 1.0), log_x=True)
    assert log.left(np.array(100.0)) == pytest.approx((svg.LEFT + svg.WIDTH - svg.RIGHT) / 2)


@pytest.mark.parametrize("values", [[], [np.nan], [0.0], [1e-30, 1e30], [-5.0, -5.0], [1e9, 1e9 + 1]])
def test_any_numbers_make_a_drawing(values):
    values = np.array(values, float)
    line = Line(NASTY, np.arange(len(values), dtype=float), values)
    root = parsed(svg.line_chart(NASTY, NASTY, [line], ("steps", NASTY)))
    assert root.find("svg").get("aria-label") == f"{NASTY}. {NASTY}"
    assert "nan" not in ElementTree.tostring(root, "unicode")


def test_bars_are_as_long_as_their_numbers():
    root = parsed(bars("t", "d", [Bar(NASTY, 50.0, 5.0, "half"), Bar("all", 100.0)], 100.0))
    half, whole = root[0].findall("rect[@class='bar']")
    assert 2 * float(half.get("width")) == float(whole.get("width")) == svg.WIDTH - 2 * svg.RIGHT
    assert len(root[0].findall("path[@class='whisker']")) == 1


def test_a_whisker_may_have_ends_of_its_own():
    root = parsed(bars("t", "d", [Bar("none of ten", 0.0, ends=(0.0, 25.0)), Bar("no whisker", 50.0)], 100.0))
    (whisker,) = root[0].findall("path[@class='whisker']")
    left, right = svg.RIGHT, svg.RIGHT + (svg.WIDTH - 2 * svg.RIGHT) / 4
    assert re.match(rf"M{left:.1f} \d+H{right:.1f}M", whisker.get("d"))


def test_spans_are_drawn_beside_zero():
    shown = [Span("a", "against b", 3.0, 1.0, 5.0), Span(NASTY, "against a", -3.0, -7.0, 1.0), Span("c", "alone", 2.0)]
    root = parsed(spans("t", "d", shown))[0]
    zero = float(re.match(r"M([\d.]+) ", root.find("path[@class='axis']").get("d")).group(1))
    places = [float(dot.get("cx")) for dot in root.findall("circle")]
    assert places[0] - zero == pytest.approx(zero - places[1], abs=0.2)
    assert [place > zero for place in places] == [True, False, True]
    ends = [
        re.match(r"M([\d.]+) \d+H([\d.]+)", one.get("d")).groups() for one in root.findall("path[@class='whisker']")
    ]
    assert len(ends) == 2, "one data set has no interval"
    assert float(ends[0][0]) > zero > float(ends[1][0])
    assert float(ends[1][1]) > zero


def test_a_heat_map_has_a_cell_for_every_count_that_is_not_zero():
    counts = np.array([[8, 2], [0, 7]])
    root = parsed(heat_map("t", "d", counts, [NASTY, "cat"]))
    told = [cell.find("title").text for cell in root[0].findall("rect")]
    assert told == [f"{NASTY} → {NASTY}: 8 (80.0 %)", f"{NASTY} → cat: 2 (20.0 %)", "cat → cat: 7 (100.0 %)"]


@pytest.mark.parametrize(
    ("ends", "expected"),
    [((0.0, 100.0), [0, 20, 40, 60, 80, 100]), ((-0.3, 0.4), [-0.2, 0.0, 0.2, 0.4]), ((5.0, 5.0), [5.0])],
)
def test_ticks_are_round(ends, expected):
    assert svg.ticks(*ends) == expected
