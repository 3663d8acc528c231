"""How progress looks: a bar for each run on a terminal, a plain line now and then elsewhere."""

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
    """All that a bar's line says, as far as there is room."""

    def __init__(self, console: Console, titles: dict[str, None]) -> None:
        super().__init__()
        self._console, self._titles = console, titles

    def render(self, task: Task) -> Text:
        status: Status = task.fields["status"]
        width = self._console.width - title_width(self._titles, self._console.width) - bar_width(self._console.width)
        return Text(status.line(time.monotonic(), width - 2), no_wrap=True)


class _Title(ProgressColumn):
    """What a bar is called, cut where there is no room."""

    def __init__(self, console: Console, titles: dict[str, None]) -> None:
        super().__init__()
        self._console, self._titles = console, titles

    def render(self, task: Task) -> Text:
        width = title_width(self._titles, self._console.width)
        return Text(shorten(task.description, width).ljust(width), no_wrap=True)


def title_width(titles: dict[str, None], width: int) -> int:
    """Room for the longest title, but at most a third of the line: the numbers need theirs."""
    return min(max(map(len, titles)), width // 3)


def bar_width(width: int) -> int:
    """Room for the bar."""
    return max(5, width // 10)


@contextmanager
def bars(console: Console) -> Iterator[Begin]:
    """Show bars while the block lasts."""
    titles: dict[str, None] = {}
    columns = (_Title(console, titles), BarColumn(bar_width=bar_width(console.width)), _Line(console, titles))
    with Progress(*columns, console=console) as shown:

        def begin(title: str, done: int, total: int, unit: str) -> Show:
            titles[title] = None
            status = Status(time.monotonic(), done, total, unit)
            task = shown.add_task(title, total=total, completed=done, status=status)

            def show(done: int, numbers: Numbers, per_step: int) -> None:
                del per_step  # there is no room
                status.update(time.monotonic(), done, numbers)
                shown.update(task, completed=done)

            return show

        yield begin


@contextmanager
def lines(console: Console) -> Iterator[Begin]:
    """Print lines: the first report as soon as it is there, so that one sees life, then some seconds apart."""

    say = sayer(console)

    def begin(title: str, done: int, total: int, unit: str) -> Show:
        status, last = Status(time.monotonic(), done, total, unit), -PLAIN_LINE_EVERY_S
        say(f"{title}: {'goes on after' if done else 'begins:'} {done or total:,} {unit}")

        def show(done: int, numbers: Numbers, per_step: int) -> None:
            nonlocal last
            now = time.monotonic()
            status.update(now, done, numbers)
            if now - last >= PLAIN_LINE_EVERY_S or done == total:
                last = now
                say(sentence(title, status, now, per_step, numbers, skip=(FINITE,)))

        return show

    yield begin
