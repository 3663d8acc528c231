"""When a run is saved; test_resume.py has what it is good for."""

import json
import signal
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

from metapl import config as configs
from metapl.evaluate.measures import Scores
from metapl.evaluate.results import Evaluation
from metapl.runs.checkpoint import name_of, names
from metapl.runs.journal import FILE, Journal
from metapl.runs.saver import Progress, Saver, evaluation_from_json, evaluation_to_json, steps_done
from metapl.system.signals import Stop, Stopped
from metapl.train.loop import Snapshot

SETTINGS = """
checkpoint = {every_minutes = 10, every_steps = 0}
[[stages]]
steps = 100
[[stages]]
steps = 50
"""


class Clock:
    def __init__(self, monkeypatch) -> None:
        self.minutes = 0.0
        monkeypatch.setattr("metapl.runs.saver.time", SimpleNamespace(monotonic=lambda: 60 * self.minutes))


@pytest.fixture
def saver(tmp_path) -> Iterator[Callable[[Stop], Saver]]:
    lines = Journal(tmp_path / FILE)
    yield lambda stop: Saver(tmp_path, configs.parse(SETTINGS, "test"), Progress(begin=0.0), lines, stop, print)
    lines.close()


def at(stage: int, step: int) -> Snapshot:
    return Snapshot(stage, step, {"w": jnp.ones(3)}, {"loss": jnp.zeros(1)}, None)


def test_by_default_it_is_saved_by_the_minute_and_at_the_end_of_a_stage(saver, tmp_path, monkeypatch):
    clock, some = Clock(monkeypatch), saver(Stop())
    for minutes, stage, step in ((1, 0, 1), (9.9, 0, 10), (10, 0, 11), (19.9, 0, 99), (19.95, 0, 100), (21, 1, 1)):
        clock.minutes = minutes
        some.between(at(stage, step))
    some.close()
    assert names(tmp_path / "checkpoints") == [name_of(11), name_of(100)]
    assert json.loads((tmp_path / "progress.json").read_text())["checkpoint"] == name_of(100) == some.newest


def test_a_wish_to_stop_is_heard_between_two_batches_of_answers(saver):
    stop, counted = Stop(), []
    count = saver(stop).counting(lambda *_: counted.append)("answers", 100)
    count(10)
    stop.signal = signal.SIGTERM
    with pytest.raises(Stopped, match="at answers, 20 of 100; no checkpoint has been written yet; metapl resume"):
        count(20)
    assert counted == [10, 20]


def test_steps_count_over_stages_and_groups_of_seeds():
    config = configs.parse(SETTINGS, "test")
    assert steps_done(config, 0, 0, 7) == 7
    assert steps_done(config, 0, 1, 7) == 107
    assert steps_done(config, 2, 1, 7) == 407


def test_evaluations_come_back_to_the_last_bit():
    scores = Scores(1 / 3, np.nextafter(0.1, 1), float("inf"), None, 0.5)
    for val in (None, scores):
        evaluation = Evaluation(4, 1, 20, scores, val)
        assert evaluation_from_json(json.loads(json.dumps(evaluation_to_json(evaluation)))) == evaluation
