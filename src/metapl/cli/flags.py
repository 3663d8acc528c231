"""Flags to a dataclass, by tyro; a mistake becomes one sentence."""

import contextlib
import io
import re
from collections.abc import Callable, Sequence
from typing import TypeVar

import tyro

from metapl.cli.verbs import dedent, filled
from metapl.schema import ConfigError

T = TypeVar("T")

# tyro has no public way to learn what is wrong: it prints a box to stderr and exits (its hook, tyro._errors, is private
# and may change in any release). So the box is read: Unicode's box-drawing characters, or letters on poor terminals.
_FRAME = re.compile(r"^[\s|\u2500-\u257f]+|[\s|\u2500-\u257f]+$")
_RULE = re.compile(r"[\s|+\u2500-\u257f]*[-─━═]{3,}[\s|+\u2500-\u257f-]*")
_PLAIN_WORDS = {  # Python's words about a wrong number, and ours, which name the flag first
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
                description=filled(dedent(verb.__doc__)),
                args=args,
                default=tyro.MISSING_NONPROP if default is None else default,
                config=(tyro.conf.AvoidSubcommands,),  # a choice of kinds is made in the file; its flags follow
            )
    except SystemExit as stop:
        if not stop.code:
            raise
        raise ConfigError(f"{sentence(errors.getvalue())} ({prog} --help lists the flags)") from None


def split_words(args: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words before the first flag, and the rest."""
    first_flag = next((i for i, arg in enumerate(args) if arg.startswith("-")), len(args))
    return list(args[:first_flag]), list(args[first_flag:])


def asks_for_help(args: Sequence[str]) -> bool:
    """Tell whether -h or --help is among the arguments."""
    return "-h" in args or "--help" in args


def sentence(box: str) -> str:
    """Return tyro's box of several lines as one: the mistake, and the nearest flag if tyro names one."""
    title, *lines = box.splitlines() or [""]
    parts: list[list[str]] = [[]]
    for line in lines:
        if _RULE.fullmatch(line):
            parts.append([])
        elif text := _FRAME.sub("", line):
            parts[-1].append(text)
    parts = [part for part in parts if part] or [[_FRAME.sub("", title)]]
    mistake, rest = " ".join(parts[0]).rstrip("."), [line for part in parts[1:] for line in part]
    for pattern, words in _PLAIN_WORDS.items():
        mistake = re.sub(pattern, words, mistake)
    near = next((line.split()[0] for line in rest if line.startswith("--")), None)
    if near and "Perhaps you meant:" in rest:
        return f"{mistake}; did you mean {near}?"
    return mistake or "the flags cannot be read"
