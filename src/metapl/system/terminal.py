"""Print sentences to the terminal."""

from functools import partial
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.console import Console


class Say(Protocol):
    """Prints a sentence."""

    def __call__(self, text: str, style: str | None = None) -> None:
        """Print `text` in the given style."""


def say(console: "Console", text: str, style: str | None = None) -> None:
    """Print a text as it is: brackets are no markup, numbers have no colours, lines are not broken."""
    console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)


def sayer(console: "Console") -> Say:
    """Return `say` for this console."""
    return partial(say, console)
