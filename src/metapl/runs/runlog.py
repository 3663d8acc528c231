"""What a run tells while it works: to a person, on the screen, and to all others who listen."""

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
    """A run's `Watch`: hands the numbers on, each report when the next one has come.

    Read at once, they would stop the loop until the device has done what was asked of it; one report late, the device
    has the next chunk of steps to work on while the loop waits.
    """

    def __init__(self, ends: Sequence[int], listeners: Sequence[Listen]) -> None:
        self._starts, self._listeners = [0, *ends], listeners
        self._waiting: list[tuple[int, int, Metrics]] = []

    def __call__(self, stage: int, done: int, metrics: Metrics) -> None:
        """Take a report; the run's last one waits for no other."""
        step = self._starts[stage] + done
        self._waiting.append((stage, step, metrics))
        self._hand_on(keep=0 if step == self._starts[-1] else 1)

    def flush(self) -> None:
        """Hand on what there is: a checkpoint counts only if all that happened before it was seen, and kept."""
        self._hand_on(keep=0)
        for listener in self._listeners:
            if flush := getattr(listener, "flush", None):
                flush()

    def _hand_on(self, keep: int) -> None:
        while len(self._waiting) > keep:
            stage, step, on_device = self._waiting.pop(0)
            numbers = {name: np.asarray(value) for name, value in on_device.items()}
            for listen in self._listeners:
                listen(stage, step, numbers)


class WatchRun(Protocol):
    """Makes the `Watch` of one run: `done` steps over all stages came before this session; listeners hear all first."""

    def __call__(self, title: str, config: Config, done: int = 0, listeners: Sequence[Listen] = ()) -> Reports: ...


class Screen(NamedTuple):
    """What can be watched; several runs may go on at once."""

    watch: WatchRun
    counting: Counting  # (title, total) -> a function of how many are done: for work on examples between the steps


@contextmanager
def progress(console: Console) -> Iterator[Screen]:
    """Show what runs are doing while the block lasts."""
    with screen.bars(console) if console.is_terminal else screen.lines(console) as begin:

        def watch(title: str, config: Config, done: int = 0, listeners: Sequence[Listen] = ()) -> Reports:
            ends = [sum(stage.steps for stage in config.stages[: i + 1]) for i in range(len(config.stages))]
            show = begin(title, done, ends[-1], "steps")

            def listen(stage: int, step: int, numbers: Numbers) -> None:
                show(step, numbers, examples_per_step(config, stage, numbers))

            return Reports(ends, [*listeners, listen])

        def counting(title: str, total: int) -> Count:
            show = begin(title, 0, total, "examples")
            return lambda done: show(done, {}, 1)

        yield Screen(watch, counting)


def examples_per_step(config: Config, stage: int, numbers: Numbers) -> int:
    """How many examples all seeds together learn from at one step."""
    batch, seeds = config.stages[stage], max((len(values) for values in numbers.values()), default=1)
    return seeds * (batch.labeled_batch + batch.unlabeled_batch * learns_unlabeled(list(numbers)))


def keeper(config: Config, seeds: Sequence[int], dataset: Dataset) -> Keeper:
    """Make the keeper of the guards for seeds that train together."""
    classes = len(dataset.class_names)
    stages = [facts(stage.method, stage.steps, dataset.labels, classes) for stage in config.stages]
    return Keeper(config.guards, stages, seeds)
