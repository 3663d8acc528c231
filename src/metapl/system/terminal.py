"""Print sentences to the terminal."""

import io
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


def open_closed_streams() -> None:
    """Connect closed standard streams (`metapl train … >&- 2>&-`, some services) to nowhere.

    The system gives the number of a closed stream to the next file that is opened, and a library that prints an error
    would write it into that file: a checkpoint, for example.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # it takes the lowest free number: this one
            if getattr(sys, name) is None:
                stream = open(number, "w" if number else "r", encoding="utf-8", closefd=False)  # noqa: SIM115
                setattr(sys, name, stream)


def escape_what_cannot_be_shown() -> None:
    """Print letters that the terminal's encoding lacks, and names that are no text, as escapes instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def discard_output() -> None:
    """Send what is left of the output nowhere: Python would fail to write it once more when it exits."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # not a file: a test's or a notebook's stream
        return
