"""Frames of a training: copies of a method's weights at some steps, kept while the loop goes on.

A copy is a few hundred numbers. The frames are evaluated when the training is over.
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

# When frames are taken, in 160ths of the last stage: more often at the start, where most changes.
PARTS = 160
TAKEN = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 72, 80, 90, 100, 110, 120, 130, 140, 150)
COUNTED = (4, 8, 20, 40, 64, 90, 120)  # the frames that are evaluated on every data set, which takes the most time

Frames = Mapping[int, Weights]  # step -> weights, whose leading axis is the data sets


def pausing(config: Config) -> Config:
    """Settings with which the loop pauses at every frame: it pauses wherever a run could be saved."""
    checkpoint = dataclasses.replace(config.checkpoint, every_steps=_part(config.stages[-1].steps))
    return dataclasses.replace(config, checkpoint=checkpoint)


def steps(total: int, taken: Sequence[int] = TAKEN) -> list[int]:
    """The steps of the frames, or of some of them; the first and the last step are always included."""
    part = _part(total)
    return sorted({1, total} | {part * count for count in taken if part * count < total})


def _part(total: int) -> int:
    return -(-total // PARTS)


class Camera:
    """Takes frames: the loop calls its `between`. Only the last stage has frames; its network is the result."""

    def __init__(self, config: Config, program: Program) -> None:
        self.frames: dict[int, Weights] = {}
        self._stage = len(config.stages) - 1
        self._steps = set(steps(config.stages[-1].steps))
        self._predictor = program.stages[-1].predictor

    def between(self, now: Snapshot) -> None:
        """Copy the weights: the loop overwrites its own at the next piece."""
        if now.stage == self._stage and now.step in self._steps:
            self.frames[now.step] = jax.tree.map(jnp.copy, self._predictor(now.state))


class Course(NamedTuple):
    """A method's accuracies during the training, on all data sets."""

    steps: NDArray[np.int64]  # [F]
    accuracies: NDArray[np.float64]  # [F, data sets]


def course(trained: Trained, frames: Frames, augmentation: Augmentation, datasets: Sequence[Dataset]) -> Course:
    """Evaluate some of the frames on all data sets; the compiled program is the one that evaluated the result."""
    taken = sorted(set(frames) & set(steps(max(frames), COUNTED)))
    tests, labels = [dataset.test for dataset in datasets], np.stack([dataset.test_labels for dataset in datasets])
    logits = [held_out.logits(trained._replace(weights=frames[step]), augmentation, tests) for step in taken]
    return Course(np.array(taken), np.array([np.mean(of_step.argmax(-1) == labels, -1) for of_step in logits]))


class ShownFrames(NamedTuple):
    """All frames of several methods, on the data sets that the page shows."""

    steps: list[int]  # F
    box: NDArray[np.float32]  # [[x, y] of the lower left, [x, y] of the upper right corner of what is seen]
    accuracies: NDArray[np.float64]  # [methods, F, data sets]
    margins: NDArray[np.float32]  # [methods, F, data sets, rows, columns] logit of the second class − of the first


def show(trained: Trained, films: Sequence[Frames], datasets: Sequence[Dataset], grid: int) -> ShownFrames:
    """Evaluate all frames of all methods on the first data sets and on the plane around them, in one program.

    All methods train the same network, so that one program serves all.
    """
    taken = sorted(set.intersection(*(set(film) for film in films)))
    box = surroundings(datasets)
    inputs = [np.concatenate([np.asarray(dataset.test, np.float32), lattice(box, grid)]) for dataset in datasets]
    few = [jax.tree.map(lambda leaf: np.asarray(leaf)[: len(datasets)], film[step]) for film in films for step in taken]
    weights = jax.tree.map(lambda *leaves: np.concatenate(leaves), *few)
    logits = held_out.logits(trained._replace(weights=weights), Augmentation(), inputs * len(few))
    logits = logits.reshape(len(films), len(taken), len(datasets), -1, 2)
    points = len(datasets[0].test)
    labels = np.stack([dataset.test_labels for dataset in datasets])
    right = np.mean(logits[..., :points, :].argmax(-1) == labels, -1)
    margins = logits[..., points:, 1] - logits[..., points:, 0]
    return ShownFrames(taken, box, right, margins.reshape(*margins.shape[:-1], grid, grid))


def surroundings(datasets: Sequence[Dataset], room: float = 0.3) -> NDArray[np.float32]:
    """The corners of a box around all points, with some room."""
    points = np.concatenate([np.asarray(dataset.test, np.float32) for dataset in datasets])
    return np.stack([points.min(0) - room, points.max(0) + room])
