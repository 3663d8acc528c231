"""Whole sweeps and studies with two workers, one of which is killed: every trial and every run is done once.

The sweep's trials are in a real PostgreSQL server; a study needs none: its workers share a folder.
"""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import optuna
import pytest

import metapl
from metapl.sweep import store
from tests.sweep import postgres

TRIALS = 4
SETTINGS = """
preset = "digits_supervised_small"
[model]
hidden = [4]
[[stages]]
steps = 300
labeled_batch = 16
method = {name = "supervised"}
"""
STUDY = """
seeds = 2
set = {"stages.0.steps" = 400, "checkpoint.every_steps" = 20}
[arms.a]
preset = "two_moons_mpl_none"
[arms.b]
preset = "two_moons_mpl_none"
set = {seed = 7}
[arms.c]
preset = "two_moons_mpl_none"
set = {seed = 9}
[[pairs]]
arm = "a"
control = "b"
"""


Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path) -> Iterator[Start]:
    """Starts a command; none outlives the test."""
    children = []

    def begin(*words: str) -> subprocess.Popen[str]:
        environment = os.environ | {"PYTHONPATH": str(Path(metapl.__file__).parents[1])}
        command = [sys.executable, "-m", "metapl", *words]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        children.append(subprocess.Popen(command, cwd=tmp_path, env=environment, **pipes))
        return children[-1]

    yield begin
    for child in children:
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()


def wait_for(happened: Callable[[], bool], *processes: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 120
    while not happened():
        for process in processes:
            assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    place = postgres.programs()
    if place is None or importlib.util.find_spec("psycopg") is None:
        pytest.skip("no PostgreSQL: apt-get install postgresql, pip install 'metapl[postgres]'")
    with postgres.server(place) as address:
        yield address


def test_a_sweep_on_postgresql_outlives_one_of_its_workers(tmp_path, start, url):
    (tmp_path / "my.toml").write_text(SETTINGS)
    words = ("sweep", "my.toml", "--trials", str(TRIALS), "--sampler", "random", "--validate-on", "40")
    first, second = (start(*words, "--storage", url, "--out", f"{place}/mine") for place in ("one", "two"))
    storage = store.connect(url)  # all three at the same moment, on an empty database

    def trials() -> list[optuna.trial.FrozenTrial]:
        names = [study.study_name for study in optuna.get_all_study_summaries(storage)]
        return optuna.load_study(study_name=names[0], storage=storage).get_trials() if names else []

    def workers() -> set[str]:
        return {trial.user_attrs["worker"]["lock"] for trial in trials() if "worker" in trial.user_attrs}

    wait_for(lambda: len(workers()) == 2, first, second)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    said, _ = second.communicate(timeout=240)
    assert second.returncode == 0, said
    again = start(*words, "--storage", url, "--out", "two/mine")  # nothing is left to do
    assert again.communicate(timeout=120)[1] is None
    assert again.returncode == 0
    done = [trial for trial in trials() if trial.state == optuna.trial.TrialState.COMPLETE]
    assert sorted(trial.user_attrs["slot"] for trial in done) == list(range(TRIALS))
    given_up = [trial.user_attrs["failure"] for trial in trials() if trial.state == optuna.trial.TrialState.FAIL]
    assert given_up in ([], ["its worker was killed"]), "it was killed between two trials, or in one"
    summary = json.loads((tmp_path / "two/mine/report/sweep.json").read_text())
    assert summary["methods"][0]["trials"] == TRIALS
    assert "secret" not in said
    storage.engine.dispose()


def test_a_study_outlives_one_of_its_workers(tmp_path, start):
    (tmp_path / "mine.toml").write_text(STUDY)
    first = start("study", "mine.toml", "--out", "out")
    runs = tmp_path / "out" / "runs"
    wait_for(lambda: any(runs.glob("*/checkpoints/step-*")), first)
    second = start("study", "mine.toml", "--out", "out")
    wait_for(lambda: len(list(runs.glob("*/config.toml"))) == 2, second)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    said, _ = second.communicate(timeout=240)
    assert second.returncode == 0, said
    assert sorted(path.parent.name for path in runs.glob("*/result.json")) == ["all--a", "all--b", "all--c"]
    for log in runs.glob("*/log.jsonl"):
        events = [json.loads(line)["event"] for line in log.read_text().splitlines()]
        assert events.count("began") == events.count("finished") == 1, (log, events)
    assert "is missing" not in (tmp_path / "out" / "study.md").read_text()
