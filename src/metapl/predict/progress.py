"""Count pictures on the terminal, on the standard error, so that predictions can go to the standard output."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn


@contextmanager
def counting(shown: bool = True) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the number of pictures that were just done."""
    console = Console(stderr=True)
    columns = TextColumn("{task.completed:,.0f} pictures"), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True, disable=not (shown and console.is_terminal)) as bar:
        task = bar.add_task("", total=None)
        yield lambda count: bar.advance(task, count)
