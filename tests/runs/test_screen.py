"""Bars at every width, and plain lines where there is no terminal."""

import io
import re
from unittest import mock

import numpy as np
import pytest
from rich.console import Console

from metapl.runs import screen

NUMBERS = {
    name: np.array([0.123456, 0.2])
    for name in ("teacher_loss", "student_loss", "feedback", "test_accuracy", "consistency_loss", "mask_rate")
}


def shown(width: int, title: str, done: int = 0) -> list[str]:
    """What a terminal of this width shows of a run of a million steps, line by line, without colours."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=width, color_system=None)
    with screen.bars(console) as begin:
        show = begin(title, done, 1_000_000, "steps")
        for step in range(done + 500, done + 2500, 500):
            show(step, NUMBERS, 10)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue())
    return [line for line in re.split(r"[\r\n]+", text) if line.strip()]


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120])
@pytest.mark.parametrize("title", ["mpl", "MPL+UDA too sharp, no feedback"])
def test_a_bar_is_one_line_that_fits(width, title):
    lines = shown(width, title)
    assert all(len(line.rstrip()) <= width for line in lines)
    assert lines[-1].startswith(title[:5])
    if width >= 60:
        assert "2,000/1,000,000" in lines[-1]
    if width >= 80:
        assert "left" in lines[-1]


def test_a_wide_bar_shows_losses_h_rate_and_evaluation():
    line = shown(120, "mpl")[-1]
    for word in ("T 0.162", "S 0.162", "h 0.162", "test 16.2%", "/s"):
        assert word in line


def test_at_80_columns_the_losses_h_the_rate_and_the_time_stay():
    line = shown(80, "mpl")[-1]
    for word in ("left", "/s", "T 0", "S 0", "h 0"):
        assert word in line


def test_a_resumed_bar_starts_where_the_run_was():
    first, *_, last = shown(80, "mpl", done=500_000)
    assert "/1,000,000" in first
    assert "0/1,000,000" not in first.split()
    assert "502,000/1,000,000" in last


def lines(times: list[float], done: int = 0, total: int = 100) -> list[str]:
    """What is printed for reports of ten steps each, at these times."""
    out = io.StringIO()
    clock = mock.patch("metapl.runs.screen.time.monotonic", side_effect=[0.0, *times])
    with clock, screen.lines(Console(file=out, width=40)) as begin:
        show = begin("mpl", done, total, "steps")
        for i in range(len(times)):
            show(done + 10 * (i + 1), {"loss": np.array([0.5])}, 1)
    return out.getvalue().splitlines()


def test_plain_lines_begin_at_once_and_then_come_every_ten_seconds_and_at_the_end():
    said = lines([1, 2, 3, 9, 11.5, 12, 13, 14, 15, 16])
    assert said[0] == "mpl: starts: 100 steps"
    assert [line.split(",")[0] for line in said[1:]] == [
        "mpl: 10 of 100 steps",
        "mpl: 50 of 100 steps",
        "mpl: 100 of 100 steps",
    ]
    assert said[1] == "mpl: 10 of 100 steps, 1 s, 10 steps/s, 0:09 left, loss 0.5"


def test_plain_lines_of_a_resumed_run_say_so():
    said = lines([1], done=50)
    assert said[0] == "mpl: continues after 50 steps"
    assert said[1].startswith("mpl: 60 of 100 steps, 1 s, 10 steps/s, 0:04 left")
