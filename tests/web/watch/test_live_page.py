"""The live page of a run that grows: when a new version counts, when a page is made, and when watching ends."""

import json
import shutil

import pytest

from metapl.report.blocks import ProgressBar
from metapl.system.lock import locked
from metapl.web.watch import live_page as module
from metapl.web.watch.live_page import LivePage
from tests.report.synthetic_runs import finish, line, make, settings


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def run(tmp_path):
    return make(tmp_path / "run", settings("mpl"), lines=[line(10, loss=[2.0])])


def append(run, *lines) -> None:
    with (run / "metrics.jsonl").open("a") as file:
        file.write("".join(lines))


def after(live_page, clock, seconds) -> str:
    clock.now += seconds
    live_page.tick()
    return live_page.version("none", 0)["version"]


def test_a_version_is_counted_when_files_change_and_not_too_often(run, clock):
    live_page = LivePage([run], clock)
    assert after(live_page, clock, 10) == "1"
    append(run, json.dumps(line(20, loss=[1.0])) + "\n")
    assert after(live_page, clock, 1) == "2"
    append(run, json.dumps(line(30, loss=[1.0])) + "\n")
    assert after(live_page, clock, 1) == "2"
    assert after(live_page, clock, 1.1) == "3"
    assert after(live_page, clock, 10) == "3"


def test_the_page_is_made_once_for_each_version_and_a_slow_one_less_often(run, clock, monkeypatch):
    made = []
    build = module.build
    monkeypatch.setattr(module, "build", lambda *args: made.append(1) or build(*args))
    live_page = LivePage([run], clock)
    live_page.page()
    assert ("2 steps" in live_page.body(), len(made)) == (False, 1)
    times = iter([0.0, 1.0])
    monkeypatch.setattr(module.time, "thread_time", lambda: next(times))
    append(run, json.dumps(line(20, loss=[1.0])) + "\n")
    after(live_page, clock, 5)
    live_page.body()
    assert len(made) == 2
    append(run, json.dumps(line(30, loss=[1.0])) + "\n")
    assert after(live_page, clock, 20) == "2"  # making a page took a second of processor time: at most one in 25 s
    assert after(live_page, clock, 6) == "3"


def test_progress_has_a_rate_and_the_time_left(run, clock):
    live_page = LivePage([run], clock)
    with locked(run):
        after(live_page, clock, 5)
        assert "run is running: 10 of 100 steps</p>" in live_page.body()
        append(run, json.dumps(line(20, loss=[1.0])) + "\n")
        after(live_page, clock, 5)
        assert "run is running: 20 of 100 steps, 2.0 steps/s, about 0:40 left</p>" in live_page.body()
        assert '<progress value="20" max="100"' in live_page.body()
        append(run, '{"seeds": [0], "sta')  # half a line
        after(live_page, clock, 5)
        assert "cannot be read" not in live_page.body()


def test_an_end_is_shown_at_once_and_watching_ends_when_browsers_have_it(run, clock):
    live_page = LivePage([run], clock)
    with locked(run):
        after(live_page, clock, 5)
        assert live_page.at_work
        assert not live_page.is_over()
        finish(run, {0: 0.875})
    assert after(live_page, clock, 0.6) == "3"
    assert "run has finished: test accuracy 87.50 %." in live_page.body()
    clock.now += 2
    assert not live_page.is_over()
    live_page.version("2", 0)  # another browser, which has not asked for the last page yet
    clock.now += 2
    assert not live_page.is_over()
    clock.now += 2
    assert live_page.is_over()


@pytest.mark.parametrize(
    ("events", "sentence"),
    [
        ([{"event": "stopped", "signal": "SIGTERM"}], "run was stopped (SIGTERM) after 10 of 100 steps; metapl resume"),
        ([{"event": "checkpoint"}], "run crashed or was killed after 10 of 100 steps"),
    ],
)
def test_a_stopped_run_and_a_killed_run_get_different_sentences(run, clock, events, sentence):
    (run / "log.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    assert endings(run, clock).startswith(sentence)


def test_a_failure_is_shown_with_its_reason(run, clock):
    (run / "warnings.jsonl").write_text(json.dumps({"level": "stop", "guard": "nonfinite"}) + "\n")
    assert "run has failed after 10 of 100 steps: stopped by the guard nonfinite" in endings(run, clock)


def endings(run, clock) -> str:
    return " ".join(LivePage([run], clock).endings())


def test_a_deleted_folder_ends_watching_without_an_error(run, clock):
    live_page = LivePage([run], clock)
    with locked(run):
        after(live_page, clock, 5)
        shutil.rmtree(run)
    after(live_page, clock, 5)
    assert f"The folder {run} no longer exists." in live_page.body()
    clock.now += 4
    assert live_page.is_over()


def test_the_page_of_ended_runs_waits_for_a_visit(run, clock):
    live_page = LivePage([run], clock)
    clock.now += 59
    assert not live_page.is_over()
    clock.now += 2
    assert live_page.is_over()
    live_page.page()
    assert not live_page.is_over()
    clock.now += 4
    assert live_page.is_over()


def test_watching_does_not_end_while_a_page_is_being_made(run, clock, monkeypatch):
    live_page = LivePage([run], clock)
    over, build = [], module.build

    def slow(*args):
        clock.now += 100
        over.append(live_page.is_over())
        return build(*args)

    monkeypatch.setattr(module, "build", slow)
    live_page.page()
    assert (over, live_page.is_over()) == ([False], False)


def test_new_runs_are_shown(tmp_path, clock):
    live_page = LivePage([tmp_path / "all"], clock)
    assert not live_page.begun
    assert "No run has started" in live_page.body()
    assert not live_page.is_over()
    make(tmp_path / "all" / "one")
    make(tmp_path / "all" / "two")
    after(live_page, clock, 5)
    assert live_page.begun
    assert 'id="run-2"' in live_page.body()


def test_progress_of_a_run_of_unknown_length(run, clock):
    (run / "config.toml").write_text("not TOML [")
    live_page = LivePage([run], clock)
    with locked(run):
        after(live_page, clock, 5)
        assert "run is running." in live_page.body()
        assert not any(isinstance(block, ProgressBar) for block in live_page._blocks())
