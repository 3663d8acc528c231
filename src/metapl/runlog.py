"""What a person sees while runs work: bars on a terminal, plain lines elsewhere."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from metapl.config import Config
from metapl.distributions import Count, Counting
from metapl.schema import ConfigError
from metapl.types import Listen, Metrics, Numbers

PLAIN_LINE_EVERY_S = 10.0

Show = Callable[[int, Numbers], None]  # how many are done, means since the last call
Begin = Callable[[str, int, str], Show]  # (title, how many there will be, of what)


class Reports:
    """A run's `Watch`: hands the numbers on, each report when the next one has come.

    While the device works on the next chunk, waiting for the numbers of the last one stalls nothing.
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
        """Hand on what there is: a checkpoint counts only if all that happened before it was seen."""
        self._hand_on(keep=0)

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
    with _bars(console) if console.is_terminal else _lines(console) as begin:

        def watch(title: str, config: Config, done: int = 0, listeners: Sequence[Listen] = ()) -> Reports:
            ends = [sum(stage.steps for stage in config.stages[: i + 1]) for i in range(len(config.stages))]
            show = begin(title, ends[-1], "steps")
            if done:
                show(done, {})

            def listen(stage: int, step: int, numbers: Numbers) -> None:
                del stage
                refuse_divergence(step, numbers)
                show(step, numbers)

            return Reports(ends, [*listeners, listen])

        def counting(title: str, total: int) -> Count:
            show = begin(title, total, "examples")
            return lambda done: show(done, {})

        yield Screen(watch, counting)


def refuse_divergence(step: int, metrics: Numbers) -> None:
    """End a run whose numbers are no numbers any more: what it would give is not a result."""
    broken = [name for name, values in metrics.items() if not np.isfinite(values).all()]
    if broken:
        raise ConfigError(
            f"training diverged before step {step:,}: {', '.join(broken)} not finite; try a lower learning rate"
        )


def brief(values: NDArray[np.float32]) -> str:
    """The mean over seeds; of a histogram, the share of the most frequent class."""
    if values.ndim > 1:
        return f"max {np.mean(np.max(values, axis=-1)):.3g}"
    return f"{np.mean(values):.3g}"


@contextmanager
def _bars(console: Console) -> Iterator[Begin]:
    columns = (
        TextColumn("{task.description:<31}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bars:

        def begin(title: str, total: int, unit: str) -> Show:
            del unit  # a bar's numbers are enough
            task = bars.add_task(title, total=total)
            return lambda done, _: bars.update(task, completed=done)

        yield begin


@contextmanager
def _lines(console: Console) -> Iterator[Begin]:
    def begin(title: str, total: int, unit: str) -> Show:
        start = last = time.monotonic()

        def show(done: int, numbers: Numbers) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last >= PLAIN_LINE_EVERY_S or done == total:
                last = now
                means = "".join(f", {name} {brief(values)}" for name, values in sorted(numbers.items()))
                line = f"{title}: {done:,} of {total:,} {unit}, {now - start:.0f} s{means}"
                console.print(line, highlight=False, markup=False, soft_wrap=True)

        return show

    yield begin
