"""How many pictures are done, on a terminal; beside the answers, so that these can go anywhere."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn


@contextmanager
def counting(shown: bool = True) -> Iterator[Callable[[int], None]]:
    """Yield the function that is told of pictures done."""
    console = Console(stderr=True)
    columns = TextColumn("{task.completed:,.0f} pictures"), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True, disable=not (shown and console.is_terminal)) as bar:
        task = bar.add_task("", total=None)
        yield lambda count: bar.advance(task, count)
