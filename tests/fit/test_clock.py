"""The time of a fit over its sessions."""

import os
import time

import pytest

from metapl.fit.clock import begin_session, in_words


def test_a_session_that_was_killed_counts_until_its_last_file(tmp_path):
    first = begin_session(tmp_path, 600, already_s=5.0)
    assert 5 <= first.spent_s < 6
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "metrics.jsonl").write_text("")
    later = time.time() + 95
    os.utime(tmp_path / "run" / "metrics.jsonl", (later, later))  # then the process was killed
    second = begin_session(tmp_path, 600)
    assert 99 <= second.spent_s < 102
    assert 498 < second.left_s <= 501
    assert str(second).endswith("left of 10 min")


@pytest.mark.parametrize("name", ["fit.json", "labels.csv", "lock"])
def test_the_time_between_two_sessions_does_not_count(name, tmp_path):
    """The second session writes its request first, and a person labels pictures meanwhile."""
    begin_session(tmp_path, 600)
    later = time.time() + 500
    (tmp_path / name).write_text("")
    os.utime(tmp_path / name, (later, later))
    assert begin_session(tmp_path, 600).spent_s < 10


@pytest.mark.parametrize("year", [1990, 2037])
def test_a_clock_that_was_set_meanwhile_does_not_use_up_the_budget(tmp_path, year):
    begin_session(tmp_path, 600)
    (tmp_path / "metrics.jsonl").write_text("")
    for path in tmp_path.iterdir():
        os.utime(path, ((year - 1970) * 365.25 * 86400,) * 2)
    assert begin_session(tmp_path, 600).spent_s < 10


def test_durations_are_words():
    assert [in_words(s) for s in (7, 99, 120, 150, 700, 3900)] == [
        "7 s",
        "99 s",
        "2 min",
        "2 min 30 s",
        "12 min",
        "1 h 5 min",
    ]
