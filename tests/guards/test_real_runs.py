"""Tiny runs that go wrong, and what is said of them."""

import dataclasses

import pytest

from metapl import data
from metapl.algorithms.feedback import Feedback
from metapl.algorithms.fixmatch import FixMatch
from metapl.algorithms.mpl import MPL
from metapl.config import Config, Stage
from metapl.guards.keeper import StoppedError
from metapl.guards.say import guarding
from metapl.models.mlp import MLP
from metapl.optim import Optimizer
from metapl.runs import runlog
from metapl.train.loop import Hooks, train

STEPS = 200


def said(method, activation="sigmoid") -> list[str]:
    """Train on TwoMoon with ten reports; what the guards say."""
    config = Config(
        model=MLP(hidden=(8,), activation=activation, init_range=0.5),
        stages=(Stage(method, STEPS, labeled_batch=6, unlabeled_batch=16),),
        log_every_steps=STEPS // 10,
    )
    datasets = data.load(dataclasses.replace(config.data, standardize=True), [0], ())
    told: list[str] = []
    listen = guarding(runlog.keeper(config, [0], datasets[0]), told.append)
    train(config, [0], datasets, Hooks(runlog.Reports([STEPS], [listen])))
    return told


def test_a_teacher_with_a_wild_learning_rate_is_stopped_and_named():
    method = MPL(teacher=Optimizer(learning_rate=1e30), feedback=Feedback("none"))
    with pytest.raises(
        StoppedError, match=r"between steps 1 and 20 of stages\.0: the teacher's numbers are not finite"
    ):
        said(method, activation="relu")


def test_a_threshold_that_nothing_passes_is_told_of():
    told = said(FixMatch(threshold=0.9999, optimizer=Optimizer(learning_rate=0.01)))
    assert any("no unlabelled example has passed the threshold" in sentence for sentence in told)


def test_labels_that_collapse_are_told_of():
    """A hundred times more weight on its own first guesses than on the truth."""
    told = said(FixMatch(threshold=0.0, weight=100.0))
    assert any("the pseudo labels are of few classes only" in sentence for sentence in told)
