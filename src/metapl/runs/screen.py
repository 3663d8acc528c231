"""Show progress: a bar for each run on a terminal, else a plain line every few seconds."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task
from rich.text import Text

from metapl.runs.status import Status, sentence, shorten
from metapl.scores import FINITE
from metapl.system.terminal import sayer
from metapl.types import Numbers

PLAIN_LINE_EVERY_S = 10.0

Show = Callable[[int, Numbers, int], None]  # how many are done, means since the last call, examples in a step
Begin = Callable[[str, int, int, str], Show]  # (title, how many are done, how many there will be, of what)


class _Line(ProgressColumn):
    """The text beside a bar, as much as fits."""

    def __init__(self, console: Console, titles: dict[str, None]) -> None:
        super().__init__()
        self._console, self._titles = console, titles

    def render(self, task: Task) -> Text:
        status: Status = task.fields["status"]
        width = self._console.width - title_width(self._titles, self._console.width) - bar_width(self._console.width)
        return Text(status.line(time.monotonic(), width - 2), no_wrap=True)


class _Title(ProgressColumn):
    """A bar's title, shortened to fit."""

    def __init__(self, console: Console, titles: dict[str, None]) -> None:
        super().__init__()
        self._console, self._titles = console, titles

    def render(self, task: Task) -> Text:
        width = title_width(self._titles, self._console.width)
        return Text(shorten(task.description, width).ljust(width), no_wrap=True)


def title_width(titles: dict[str, None], width: int) -> int:
    """The width of the longest title, but at most a third of the line, to leave room for the numbers."""
    return min(max(map(len, titles)), width // 3)


def bar_width(width: int) -> int:
    """The width of a bar."""
    return max(5, width // 10)


@contextmanager
def bars(console: Console) -> Iterator[Begin]:
    """Show bars while the block runs."""
    titles: dict[str, None] = {}
    columns = (_Title(console, titles), BarColumn(bar_width=bar_width(console.width)), _Line(console, titles))
    with Progress(*columns, console=console) as shown:

        def begin(title: str, done: int, total: int, unit: str) -> Show:
            titles[title] = None
            status = Status(time.monotonic(), done, total, unit)
            task = shown.add_task(title, total=total, completed=done, status=status)

            def show(done: int, numbers: Numbers, per_step: int) -> None:
                del per_step  # does not fit on the line
                status.update(time.monotonic(), done, numbers)
                shown.update(task, completed=done)

            return show

        yield begin


@contextmanager
def lines(console: Console) -> Iterator[Begin]:
    """Print lines: the first report at once, to show that it works, then some seconds apart."""

    say = sayer(console)

    def begin(title: str, done: int, total: int, unit: str) -> Show:
        status, last = Status(time.monotonic(), done, total, unit), -PLAIN_LINE_EVERY_S
        say(f"{title}: {'continues after' if done else 'starts:'} {done or total:,} {unit}")

        def show(done: int, numbers: Numbers, per_step: int) -> None:
            nonlocal last
            now = time.monotonic()
            status.update(now, done, numbers)
            if now - last >= PLAIN_LINE_EVERY_S or done == total:
                last = now
                say(sentence(title, status, now, per_step, numbers, skip=(FINITE,)))

        return show

    yield begin
