"""Print sentences to the terminal."""

import os
import sys
from functools import partial
from typing import Protocol

from rich.console import Console


class Say(Protocol):
    """Prints a sentence."""

    def __call__(self, text: str, style: str | None = None) -> None:
        """Print `text` in the given style."""


class Terminal(Console):
    """The console of a verb: a closed pipe (`metapl runs | head`) is an error that the command line handles."""

    def on_broken_pipe(self) -> None:
        """Raise the BrokenPipeError that rich is handling; rich would exit with code 1, which here means a result."""
        raise


def say(console: Console, text: str, style: str | None = None) -> None:
    """Print a text as it is: brackets are no markup, numbers have no colours, lines are not broken."""
    console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)


def sayer(console: Console) -> Say:
    """Return `say` for this console."""
    return partial(say, console)


def discard_output() -> None:
    """Send what is left of the output nowhere: Python would fail to write it once more when it exits."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # not a file: a test's or a notebook's stream
        return
