"""Flags to a dataclass, by tyro; a mistake becomes one sentence."""

import contextlib
import io
import re
from collections.abc import Callable, Sequence
from typing import TypeVar

import tyro

from metapl.schema import ConfigError

T = TypeVar("T")

_FRAME = " │|"  # what stands left and right of a line; tyro draws with letters where a terminal has no lines
_RULE = re.compile(r"[─━╭╮╰╯+-]{3,}.*")
_PLAIN_WORDS = {  # what Python says of a wrong number, in words that name the flag first
    r"Error parsing (\S+): invalid literal for int\(\) with base 10: (.*)": r"\1 takes a whole number, got \2",
    r"Error parsing (\S+): could not convert string to float: (.*)": r"\1 takes a number, got \2",
    r"Error parsing (\S+): no type matching (\S+) could be instantiated from \['(.*?)'\].*": r"\1 takes \2, got '\3'",
}


def parse(cls: type[T], prog: str, verb: Callable[..., None], args: Sequence[str], default: T | None = None) -> T:
    """Read the flags of a verb, whose docstring is the help's text."""
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors):
            return tyro.cli(
                cls,
                prog=prog,
                description=dedent(verb.__doc__),
                args=args,
                default=tyro.MISSING_NONPROP if default is None else default,
                config=(tyro.conf.AvoidSubcommands,),  # a choice of kinds is made in the file; its flags follow
            )
    except SystemExit as stop:
        if not stop.code:
            raise
        raise ConfigError(f"{sentence(errors.getvalue())} ({prog} --help lists the flags)") from None


def sentence(box: str) -> str:
    """What tyro says in a box of several lines, in one: the mistake, and the nearest flag where it knows one."""
    title, *lines = [line.strip(_FRAME) for line in box.splitlines()] or [""]
    parts: list[list[str]] = [[]]
    for line in lines:
        if _RULE.fullmatch(line):
            parts.append([])
        elif line:
            parts[-1].append(line)
    parts = [part for part in parts if part] or [[title]]
    mistake, rest = " ".join(parts[0]).rstrip("."), [line for part in parts[1:] for line in part]
    for pattern, words in _PLAIN_WORDS.items():
        mistake = re.sub(pattern, words, mistake)
    near = next((line.split()[0] for line in rest if line.startswith("--")), None)
    if near and "Perhaps you meant:" in rest:
        return f"{mistake}; did you mean {near}?"
    return mistake or "the flags cannot be read"


def dedent(text: str | None) -> str:
    """A docstring without its indentation."""
    return "\n".join(line.removeprefix("    ") for line in (text or "").splitlines())
