"""What one line says."""

import numpy as np
import pytest

from metapl.runs.status import Segment, SpeedClock, Status, brief, duration, fit, main_numbers, sentence, shorten, speed


def test_numbers_are_means_over_seeds_and_histograms_their_largest_share():
    assert brief(np.array([0.25, 0.75])) == "0.5"
    assert brief(np.array([[0.1, 0.9], [0.3, 0.7]])) == "max 0.8"


def test_the_first_report_counts_from_the_start_and_later_ones_leave_the_compiling_out():
    clock = SpeedClock(now=100.0, done=0, total=1000)
    assert clock.rate is None
    assert clock.left(101.0) is None
    clock.update(110.0, 100)  # most of it was compiling
    assert clock.rate == pytest.approx(10)
    assert clock.left(110.0) == pytest.approx(90)
    clock.update(111.0, 200)
    assert clock.rate == pytest.approx(100)
    assert clock.left(113.0) == pytest.approx(6)  # 8 s from the report, which was 2 s ago
    assert clock.left(200.0) == 0


def test_reports_that_come_at_once_do_not_make_it_fast():
    clock = SpeedClock(now=0.0, done=0, total=1000)
    clock.update(10.0, 500)
    clock.update(10.01, 1000)
    assert clock.rate == pytest.approx(100, rel=0.01)


def test_a_resumed_run_counts_the_steps_of_its_own_session():
    clock = SpeedClock(now=0.0, done=900, total=1000)
    clock.update(10.0, 950)
    assert clock.rate == pytest.approx(5)
    assert clock.left(10.0) == pytest.approx(10)


def test_the_rate_follows_a_stage_that_is_slower():
    clock = SpeedClock(now=0.0, done=0, total=10**6)
    for i in range(1, 21):
        clock.update(i, 100 * i)
    for i in range(1, 11):
        clock.update(20 + 10 * i, 2000 + 100 * i)
    assert clock.rate == pytest.approx(10)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00"), (6.2, "0:07"), (754, "12:34"), (10921, "3:02:01"), (2 * 86400 + 3 * 3600 + 240, "2d 03:04")],
)
def test_durations_are_short(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(("rate", "text"), [(12345.6, "12,346 steps/s"), (3.21, "3.2 steps/s"), (0.25, "4.0 s/step")])
def test_speeds_are_read_at_once(rate, text):
    assert speed(rate, "steps") == text
    assert speed(rate, "") == text.replace(" steps", "")


def test_the_main_numbers_have_short_names_and_an_order():
    numbers = {"test_accuracy": np.array([0.5]), "feedback": np.array([0.01]), "teacher_loss": np.array([1.0])}
    assert main_numbers(numbers | {"baseline": np.array([3.0])}) == ["T 1", "h 0.01", "test 50.0%"]


def test_what_is_needed_most_has_the_room():
    segments = [Segment("ab", 0), Segment("cd", 2), Segment("ef", 1)]
    assert fit(segments, 10) == "ab  cd  ef"
    assert fit(segments, 9) == "ab  ef"
    assert fit(segments, 5) == "ab"
    assert fit([Segment("ab", 0), Segment("too long", 1), Segment("ef", 2)], 6) == "ab  ef"
    assert fit(segments, 1) == ""
    assert shorten("metapl", 4) == "met…"
    assert shorten("metapl", 6) == "metapl"


def test_a_line_keeps_the_last_evaluation_and_ends_with_how_long_it_took():
    status = Status(0.0, 0, 200, "steps")
    assert status.line(3.0, 80) == "0/200  starting, 0:03"
    status.update(10.0, 100, {"test_accuracy": np.array([0.9]), "loss": np.array([1.0])})
    status.update(20.0, 150, {"loss": np.array([0.5])})
    assert status.line(20.0, 80) == "150/200  0:10 left  5.0/s  loss 0.5  test 90.0%"
    status.update(30.0, 200, {"loss": np.array([0.25])})
    assert status.line(30.0, 40) == "200/200  in 0:30  loss 0.25  test 90.0%"


def test_a_plain_line_has_everything_but_what_is_for_the_guards():
    status = Status(0.0, 0, 1000, "steps")
    numbers = {"loss": np.array([0.5]), "baseline": np.array([0.1]), "finite_network": np.array([1.0])}
    status.update(10.0, 500, numbers)
    assert sentence("mpl", status, 10.0, 64, numbers, skip=["finite_"]) == (
        "mpl: 500 of 1,000 steps, 10 s, 50 steps/s, 3,200 examples/s, 0:10 left, baseline 0.1, loss 0.5"
    )
