"""Settings of runs that train a small network from nothing, on labelled and unlabelled pictures.

SoftMatch (algorithms/softmatch.py), by SGD: the network learns the labels, and, from strong views, those that it gives
itself to weak views, each weighted by how sure they are. Without unlabelled pictures it learns the labels alone.

The network is models/whitened.py. Its stem is learnt before, from the pictures alone, and stays. docs/features.md has
what was tried.
"""

import dataclasses
from typing import NamedTuple

from metapl.algorithms.softmatch import SoftMatch
from metapl.algorithms.supervised import Supervised
from metapl.config import Checkpoint, Config, Stage
from metapl.models.whitened import Whitened
from metapl.optim import Optimizer

SIDE, SMALL_SIDE = 32, 20  # pixels that the network sees; below the smaller one, the stem leaves no pixel out
RATE, FEW_RATE, WEIGHT_DECAY = 0.05, 0.02, 5e-4  # the smaller rate for few labels, from a network that knows them
BATCH = 64
CLIP = 5.0  # the largest norm of a gradient
AVERAGE = 0.99  # SoftMatch's: it has few steps
GIVEN, WORK_OF_GIVEN = 0.5, 0.4  # steps on labels that a model gives, for each other step; the work of such a step


def network(side: int) -> Whitened:
    """The network for pictures of this side."""
    return Whitened(stride=2 if side >= SMALL_SIDE else 1)


def given_steps(steps: int) -> int:
    """How many steps the run on given labels has, if the others have so many."""
    return max(1, int(GIVEN * steps))


def on_labels(base: Config, steps: int, labeled: int) -> Config:
    """The settings of a run on labels alone; `base` is as below."""
    return _run(base, Stage(Supervised(_optimizer(steps)), steps, min(BATCH, labeled)))


class Data(NamedTuple):
    """What a run learns from."""

    labeled: int  # pictures
    unlabeled: int
    many: bool  # labels of each class
    balanced: bool  # whether the classes have about equally many labels


def settings(base: Config, steps: int, data: Data) -> Config:
    """The settings of a run; `base` has the pictures, their views, the network and the weights to start from."""
    if data.unlabeled < 2:  # SoftMatch takes the variance of a batch
        return on_labels(base, steps, data.labeled)
    optimizer = _optimizer(steps, RATE if data.many else FEW_RATE)
    method = SoftMatch(average=AVERAGE, alignment=data.balanced, optimizer=optimizer)
    return _run(base, Stage(method, steps, min(BATCH, data.labeled), min(BATCH, data.unlabeled)))


def _optimizer(steps: int, rate: float = RATE) -> Optimizer:
    return Optimizer(
        learning_rate=rate,
        schedule="cosine",
        warmup_steps=steps // 10,
        momentum=0.9,
        nesterov=True,
        weight_decay=WEIGHT_DECAY,
        clip_norm=CLIP,
        frozen_layers=1,
    )


def _run(base: Config, stage: Stage) -> Config:
    log_every = max(1, stage.steps // 50)
    return dataclasses.replace(
        base, stages=(stage,), log_every_steps=log_every, checkpoint=Checkpoint(every_minutes=1.0)
    )
