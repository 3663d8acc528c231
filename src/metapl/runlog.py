"""What a person sees while runs work: bars on a terminal, plain lines elsewhere."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from metapl.config import Config
from metapl.distributions import Count, Counting
from metapl.schema import ConfigError
from metapl.train import Watch
from metapl.types import Metrics

PLAIN_LINE_EVERY_S = 10.0

Numbers = Mapping[str, NDArray[np.float32]]  # metrics on the host: a value [R] or a histogram [R, C] for each seed
Show = Callable[[int, Numbers], None]  # how many are done, means since the last call
Begin = Callable[[str, int, str], Show]  # (title, how many there will be, of what)


class Screen(NamedTuple):
    """What can be watched; several runs may go on at once."""

    watch: Callable[[str, Config], Watch]  # (title, config) -> the `Watch` of one run
    counting: Counting  # (title, total) -> a function of how many are done: for work on examples between the steps


@contextmanager
def progress(console: Console) -> Iterator[Screen]:
    """Show what runs are doing while the block lasts."""
    with _bars(console) if console.is_terminal else _lines(console) as begin:

        def watch(title: str, config: Config) -> Watch:
            ends = [sum(stage.steps for stage in config.stages[: i + 1]) for i in range(len(config.stages))]
            return _late(begin(title, ends[-1], "steps"), [0, *ends])

        def counting(title: str, total: int) -> Count:
            show = begin(title, total, "examples")
            return lambda done: show(done, {})

        yield Screen(watch, counting)


def _late(show: Show, starts: list[int]) -> Watch:
    """Read the numbers one call late: while the device works on the next chunk, waiting stalls nothing."""
    waiting: list[tuple[int, Metrics]] = []

    def watch(stage: int, done: int, metrics: Metrics) -> None:
        waiting.append((starts[stage] + done, metrics))
        last = starts[stage] + done == starts[-1]
        while len(waiting) > (0 if last else 1):
            step, on_device = waiting.pop(0)
            numbers = {name: np.asarray(value) for name, value in on_device.items()}
            refuse_divergence(step, numbers)
            show(step, numbers)

    return watch


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
