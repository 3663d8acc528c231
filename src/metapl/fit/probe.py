"""Measure how long the baseline takes to compile, and for a step, by doing some steps on the data."""

import dataclasses
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import jax
import numpy as np

from metapl import data
from metapl.config import Config
from metapl.data.sources.dataset import Dataset
from metapl.fit.budget import Probe
from metapl.recipe import Choice
from metapl.train.loop import Hooks, train
from metapl.types import Metrics

SECONDS, STEPS = 4.0, 40  # the probe ends after the first of the two

Measure = Callable[[Choice], Probe]


def measuring(baseline: Callable[[Choice], Config], folder: Path) -> Measure:
    """A function that trains the baseline for a few seconds and gives its times; it reads pictures of a size once."""
    loaded: dict[int, Dataset] = {}

    def measure(choice: Choice) -> Probe:
        settings = baseline(choice)
        if choice.size not in loaded:
            loaded[choice.size] = read(settings, folder)
        return measured(settings, loaded[choice.size])

    return measure


def read(settings: Config, folder: Path) -> Dataset:
    """Read the pictures of a run."""
    return data.load(settings.data, [settings.seed], (folder,))[0]


def measured(settings: Config, pictures: Dataset) -> Probe:
    """Train for a few seconds; what is learnt is not kept."""
    settings, times = dataclasses.replace(settings, log_every_steps=1), [time.monotonic()]

    def watch(stage: int, step: int, metrics: Metrics) -> None:
        del stage, step
        jax.block_until_ready(metrics)
        times.append(time.monotonic())
        if times[-1] - times[1] > SECONDS:
            raise _TimeIsUpError

    with suppress(_TimeIsUpError):
        train(settings, [settings.seed], [pictures], Hooks(watch))
    steps = np.diff(times[1:])
    return Probe(times[1] - times[0], float(np.median(steps)) if len(steps) else times[1] - times[0])


class _TimeIsUpError(Exception):
    """Ends the probe."""
