"""Verbs that are imported only when they are called, and the texts that list them."""

import importlib
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from metapl.system.terminal import Terminal, say

INDENT = 2


@dataclass(frozen=True)
class Verb:
    """A verb's function, by its place, and its line in a list of verbs."""

    place: str  # module:function, below metapl.cli
    summary: str  # the first line of the function's docstring

    def load(self) -> Callable[[Sequence[str]], None]:
        """Import the function."""
        module, _, name = self.place.partition(":")
        return cast(Callable[[Sequence[str]], None], getattr(importlib.import_module(f"metapl.cli.{module}"), name))

    def __call__(self, args: Sequence[str]) -> None:
        """Import the function and call it."""
        self.load()(args)


def listing(rows: Mapping[str, str], width: int) -> str:
    """Return names with their texts beside them; a text that wraps stays in its column."""
    column = INDENT + max(map(len, rows)) + 2
    return "\n".join(
        textwrap.fill(
            text,
            max(width, column + 20),
            initial_indent=f"{'':{INDENT}}{name:<{column - INDENT}}",
            subsequent_indent=" " * column,
            break_on_hyphens=False,
        )
        for name, text in rows.items()
    )


def print_help(usage: str, verb: Callable[..., None], *rest: str) -> None:
    """Print a verb's help without flags: the usage, its docstring, and more paragraphs."""
    terminal = Terminal()
    say(terminal, "\n\n".join([f"usage: {usage}", filled(dedent(verb.__doc__).strip(), terminal.width), *rest]))


def dedent(text: str | None) -> str:
    """Return a docstring without its indentation."""
    return "\n".join(line.removeprefix("    ") for line in (text or "").splitlines())


def filled(text: str, width: int = 10**6) -> str:
    """Fill paragraphs to the width; those with indented lines, which are commands, stay as they are."""
    paragraphs = text.split("\n\n")
    return "\n\n".join(part if "\n " in part else textwrap.fill(part, width) for part in paragraphs)
