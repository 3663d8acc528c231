"""A training in pictures: the weights that a method had at some steps, kept while the loop goes on.

Keeping them is a copy of a few hundred numbers; they are asked when the training is over.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from metapl.augment.views import Augmentation
from metapl.config import Config
from metapl.data.sources.dataset import Dataset
from metapl.evaluate import held_out
from metapl.report.moons_regions import lattice
from metapl.train.loop import Snapshot, Trained
from metapl.train.program import Program
from metapl.types import Weights

# When frames are taken, in parts of the last stage: closer at the start, where most moves.
PARTS = 160
TAKEN = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 72, 80, 90, 100, 110, 120, 130, 140, 150)
COUNTED = (4, 8, 20, 40, 64, 90, 120)  # of them, which are asked about every data set: the dearest part of all

Frames = Mapping[int, Weights]  # step -> weights; their leading axis is the data sets'


def pausing(config: Config) -> Config:
    """Have the loop come by wherever a frame is taken: it does so wherever a run could be saved."""
    checkpoint = dataclasses.replace(config.checkpoint, every_steps=_part(config.stages[-1].steps))
    return dataclasses.replace(config, checkpoint=checkpoint)


def steps(total: int, taken: Sequence[int] = TAKEN) -> list[int]:
    """The steps of the frames, or of some of them; the first step and the last one are always there."""
    part = _part(total)
    return sorted({1, total} | {part * count for count in taken if part * count < total})


def _part(total: int) -> int:
    return -(-total // PARTS)


class Camera:
    """Hand its `between` to the loop; only the last stage is taken, whose network is the result."""

    def __init__(self, config: Config, program: Program) -> None:
        self.frames: dict[int, Weights] = {}
        self._stage = len(config.stages) - 1
        self._steps = set(steps(config.stages[-1].steps))
        self._predictor = program.stages[-1].predictor

    def between(self, now: Snapshot) -> None:
        """Copy the weights: the loop gives its own away at the next piece."""
        if now.stage == self._stage and now.step in self._steps:
            self.frames[now.step] = jax.tree.map(jnp.copy, self._predictor(now.state))


class Course(NamedTuple):
    """How a method got on, over all data sets."""

    steps: NDArray[np.int64]  # [F]
    accuracies: NDArray[np.float64]  # [F, data sets]


def course(trained: Trained, frames: Frames, augmentation: Augmentation, datasets: Sequence[Dataset]) -> Course:
    """Ask some of the frames about all data sets: the program that the result was asked with is there already."""
    found = sorted(set(frames) & set(steps(max(frames), COUNTED)))
    tests, labels = [dataset.test for dataset in datasets], np.stack([dataset.test_labels for dataset in datasets])
    answers = [held_out.logits(trained._replace(weights=frames[step]), augmentation, tests) for step in found]
    return Course(np.array(found), np.array([np.mean(one.argmax(-1) == labels, -1) for one in answers]))


class Shown(NamedTuple):
    """All frames of several methods on the data sets that are shown."""

    steps: list[int]  # F
    box: NDArray[np.float32]  # [[x, y] of the lower left, [x, y] of the upper right corner of what is seen]
    accuracies: NDArray[np.float64]  # [methods, F, data sets]
    margins: NDArray[np.float32]  # [methods, F, data sets, rows, columns] logit of the second class − of the first


def show(trained: Trained, films: Sequence[Frames], datasets: Sequence[Dataset], grid: int) -> Shown:
    """Ask all frames of all methods about the first data sets and about the plane around them, in one program.

    One network for all of them: methods differ in how they train it, not in what it is.
    """
    found = sorted(set.intersection(*(set(film) for film in films)))
    box = surroundings(datasets)
    asked = [np.concatenate([np.asarray(one.test, np.float32), lattice(box, grid)]) for one in datasets]
    few = [jax.tree.map(lambda leaf: np.asarray(leaf)[: len(datasets)], film[step]) for film in films for step in found]
    weights = jax.tree.map(lambda *leaves: np.concatenate(leaves), *few)
    logits = held_out.logits(trained._replace(weights=weights), Augmentation(), asked * len(few))
    logits = logits.reshape(len(films), len(found), len(datasets), -1, 2)
    points = len(datasets[0].test)
    labels = np.stack([dataset.test_labels for dataset in datasets])
    right = np.mean(logits[..., :points, :].argmax(-1) == labels, -1)
    margins = logits[..., points:, 1] - logits[..., points:, 0]
    return Shown(found, box, right, margins.reshape(*margins.shape[:-1], grid, grid))


def surroundings(datasets: Sequence[Dataset], room: float = 0.3) -> NDArray[np.float32]:
    """The part of the plane that holds all points, and a bit more."""
    points = np.concatenate([np.asarray(dataset.test, np.float32) for dataset in datasets])
    return np.stack([points.min(0) - room, points.max(0) + room])
