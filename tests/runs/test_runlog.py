"""Who hears of a report, and when."""

import dataclasses
import io

import jax.numpy as jnp
import numpy as np
from rich.console import Console

from metapl.config import Config, Stage
from metapl.metrics import HISTOGRAM
from metapl.runs import runlog
from metapl.runs.runlog import Reports, examples_per_step

CONFIG = Config(stages=(Stage(steps=10, labeled_batch=6, unlabeled_batch=64), Stage(steps=20)))


class Listener:
    def __init__(self):
        self.heard, self.flushed = [], 0

    def __call__(self, stage, step, numbers):
        assert all(isinstance(value, np.ndarray) for value in numbers.values())
        self.heard.append((stage, step))

    def flush(self):
        self.flushed += 1


def test_a_report_is_read_when_the_next_one_has_come_and_the_last_at_once():
    listener = Listener()
    reports = Reports([10, 30], [listener])
    reports(0, 5, {"loss": jnp.ones(1)})
    assert listener.heard == []
    reports(0, 10, {"loss": jnp.ones(1)})
    assert listener.heard == [(0, 5)]
    reports(1, 10, {})
    assert listener.heard == [(0, 5), (0, 10)]
    reports(1, 20, {})
    assert listener.heard == [(0, 5), (0, 10), (1, 20), (1, 30)]


def test_a_flush_leaves_nothing_unread():
    listener = Listener()
    reports = Reports([10], [listener, lambda *_: None])
    reports(0, 5, {"loss": jnp.ones(1)})
    reports.flush()
    assert (listener.heard, listener.flushed) == ([(0, 5)], 1)


def test_a_run_is_shown_and_others_hear_of_it_first():
    out, listener = io.StringIO(), Listener()
    with runlog.progress(Console(file=out, width=80)) as screen:
        watch = screen.watch("run", CONFIG, done=10, listeners=[listener])
        watch(1, 10, {"loss": jnp.ones(1)})
        watch(1, 20, {"loss": jnp.ones(1)})
        screen.counting("answers", 5)(5)
    assert listener.heard == [(1, 20), (1, 30)]
    said = out.getvalue()
    for words in ("run: continues after 10 steps", "run: 30 of 30 steps", "answers: 5 of 5 examples"):
        assert words in said


def test_examples_are_counted_for_all_seeds_and_only_if_they_are_learnt_from():
    labeled = {"loss": np.ones(3)}
    assert examples_per_step(CONFIG, 0, labeled) == 18
    assert examples_per_step(CONFIG, 0, labeled | {HISTOGRAM: np.ones((3, 2))}) == 210


def test_a_keeper_knows_the_settings_of_the_guards():
    from metapl import data

    config = dataclasses.replace(CONFIG, guards=dataclasses.replace(CONFIG.guards, nonfinite="warn"))
    dataset = data.load(config.data, [0], ())[0]
    (alarm,) = runlog.keeper(config, [0], dataset).read_report(0, 5, {"loss": np.array([np.nan])})
    assert alarm.level == "warn"
