"""What a person sees while runs work: bars on a terminal, plain lines elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import jax
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from metapl.config import Config
from metapl.train import Watch
from metapl.types import Metrics

PLAIN_LINE_EVERY_S = 10.0

Show = Callable[[int], None]  # steps done


@contextmanager
def progress(console: Console) -> Iterator[Callable[[str, Config], Watch]]:
    """Give a function from (title, config) to the `Watch` of one run; several runs may go on at once."""
    with _bars(console) if console.is_terminal else _lines(console) as begin:

        def watch_run(title: str, config: Config) -> Watch:
            ends = [sum(stage.steps for stage in config.stages[: i + 1]) for i in range(len(config.stages))]
            return _late(begin(title, ends[-1]), [0, *ends])

        yield watch_run


def _late(show: Show, starts: list[int]) -> Watch:
    """Wait for the numbers one call late: while the device works on the next chunk, waiting stalls nothing."""
    waiting: list[Metrics] = []

    def watch(stage: int, done: int, metrics: Metrics) -> None:
        waiting.append(metrics)
        if len(waiting) > 1:
            jax.block_until_ready(waiting.pop(0))
        show(starts[stage] + done)

    return watch


@contextmanager
def _bars(console: Console) -> Iterator[Callable[[str, int], Show]]:
    columns = (
        TextColumn("{task.description:<31}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bars:

        def begin(title: str, total: int) -> Show:
            task = bars.add_task(title, total=total)
            return lambda done: bars.update(task, completed=done)

        yield begin


@contextmanager
def _lines(console: Console) -> Iterator[Callable[[str, int], Show]]:
    def begin(title: str, total: int) -> Show:
        start = last = time.monotonic()

        def show(done: int) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last >= PLAIN_LINE_EVERY_S or done == total:
                last = now
                console.print(f"{title}: {done:,} of {total:,} steps, {now - start:.0f} s", highlight=False)

        return show

    yield begin
