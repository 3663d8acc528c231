"""What a person sees while a run works: a bar on a terminal, plain lines elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import jax
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from metapl.config import Config
from metapl.train import Watch
from metapl.types import Metrics

PLAIN_LINE_EVERY_S = 5.0


@contextmanager
def progress(console: Console, title: str, config: Config) -> Iterator[Watch]:
    """Give a `Watch` for one run; every stage's steps are one bar."""
    total = sum(stage.steps for stage in config.stages)
    done_before = [sum(stage.steps for stage in config.stages[:i]) for i in range(len(config.stages))]
    show = _bar(console, title, total) if console.is_terminal else _lines(console, title, total)
    with show as update:
        waiting: list[Metrics] = []

        def watch(stage: int, done: int, metrics: Metrics) -> None:
            # One call late: waiting for the last chunk's numbers while the device works on this one stalls nothing.
            waiting.append(metrics)
            if len(waiting) > 1:
                jax.block_until_ready(waiting.pop(0))
            update(done_before[stage] + done)

        yield watch


@contextmanager
def _bar(console: Console, title: str, total: int) -> Iterator[Callable[[int], None]]:
    columns = (
        TextColumn("{task.description:<28}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("steps"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.update(task, completed=done)


@contextmanager
def _lines(console: Console, title: str, total: int) -> Iterator[Callable[[int], None]]:
    start = last = time.monotonic()

    def update(done: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= PLAIN_LINE_EVERY_S or done == total:
            last = now
            console.print(f"{title}: {done:,} of {total:,} steps, {now - start:.0f} s", highlight=False)

    yield update
