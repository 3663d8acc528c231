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
        settings = dataclasses.replace(baseline(choice), log_every_steps=1)
        if choice.size not in loaded:
            loaded[choice.size] = data.load(settings.data, [settings.seed], (folder,))[0]
        times = [time.monotonic()]

        def watch(stage: int, step: int, metrics: Metrics) -> None:
            del stage, step
            jax.block_until_ready(metrics)
            times.append(time.monotonic())
            if times[-1] - times[1] > SECONDS:
                raise _TimeIsUpError

        with suppress(_TimeIsUpError):
            train(settings, [settings.seed], [loaded[choice.size]], Hooks(watch))
        steps = np.diff(times[1:])
        return Probe(times[1] - times[0], float(np.median(steps)) if len(steps) else times[1] - times[0])

    return measure


class _TimeIsUpError(Exception):
    """Ends the probe."""
