"""Reports of a running training: to the screen, and to all other listeners."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import numpy as np
from rich.console import Console

from metapl.config import Config
from metapl.data.sources.dataset import Dataset
from metapl.guards.facts import facts
from metapl.guards.keeper import Keeper
from metapl.metrics import learns_unlabeled
from metapl.runs import screen
from metapl.train.stored_predictions import Count, Counting
from metapl.types import Listen, Metrics, Numbers


class Reports:
    """A run's `Watch`: passes each report to the listeners when the next one has come.

    Reading a report at once would make the loop wait until the device has finished its steps. One report later, the
    device works on the next chunk of steps while the loop waits.
    """

    def __init__(self, ends: Sequence[int], listeners: Sequence[Listen]) -> None:
        self._starts, self._listeners = [0, *ends], listeners
        self._waiting: list[tuple[int, int, Metrics]] = []

    def __call__(self, stage: int, done: int, metrics: Metrics) -> None:
        """Take a report; the run's last one is passed on at once."""
        step = self._starts[stage] + done
        self._waiting.append((stage, step, metrics))
        self._pass_on(keep=0 if step == self._starts[-1] else 1)

    def flush(self) -> None:
        """Pass on all reports: a checkpoint is valid only if the journal has everything before it."""
        self._pass_on(keep=0)
        for listener in self._listeners:
            if flush := getattr(listener, "flush", None):
                flush()

    def _pass_on(self, keep: int) -> None:
        while len(self._waiting) > keep:
            stage, step, on_device = self._waiting.pop(0)
            numbers = {name: np.asarray(value) for name, value in on_device.items()}
            for listen in self._listeners:
                listen(stage, step, numbers)


def reports(config: Config, listeners: Sequence[Listen]) -> Reports:
    """Make the `Watch` of a run with these settings."""
    return Reports([sum(stage.steps for stage in config.stages[: i + 1]) for i in range(len(config.stages))], listeners)


class WatchRun(Protocol):
    """Makes the `Watch` of one run; `done` steps came before this session. Listeners come before the screen."""

    def __call__(self, title: str, config: Config, done: int = 0, listeners: Sequence[Listen] = ()) -> Reports: ...


class Screen(NamedTuple):
    """Makes progress bars; several runs may train at once."""

    watch: WatchRun
    counting: Counting  # for work on examples between the steps, such as predictions


@contextmanager
def progress(console: Console) -> Iterator[Screen]:
    """Show the progress of runs while the block runs."""
    with screen.bars(console) if console.is_terminal else screen.lines(console) as begin:

        def watch(title: str, config: Config, done: int = 0, listeners: Sequence[Listen] = ()) -> Reports:
            show = begin(title, done, sum(stage.steps for stage in config.stages), "steps")

            def listen(stage: int, step: int, numbers: Numbers) -> None:
                show(step, numbers, examples_per_step(config, stage, numbers))

            return reports(config, [*listeners, listen])

        def counting(title: str, total: int) -> Count:
            show = begin(title, 0, total, "examples")
            return lambda done: show(done, {}, 1)

        yield Screen(watch, counting)


def examples_per_step(config: Config, stage: int, numbers: Numbers) -> int:
    """How many examples all seeds together use in one step."""
    batch, seeds = config.stages[stage], max((len(values) for values in numbers.values()), default=1)
    return seeds * (batch.labeled_batch + batch.unlabeled_batch * learns_unlabeled(list(numbers)))


def keeper(config: Config, seeds: Sequence[int], dataset: Dataset) -> Keeper:
    """Make the keeper of the guards for seeds that train at once."""
    classes = len(dataset.class_names)
    stages = [facts(stage.method, stage.steps, dataset.labels, classes) for stage in config.stages]
    return Keeper(config.guards, stages, seeds)
