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
# Whatever a later tyro prints, the user gets its words on one line; tests/cli/test_flags.py asks the installed one.
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_USAGE = re.compile(r"^usage:.*$|^.*?\berror: ", re.IGNORECASE)
_FRAME = re.compile(r"^[\s|\u2500-\u257f]+|[\s|\u2500-\u257f]+$")
_RULE = re.compile(r"[\s|+\u2500-\u257f]*[-─━═]{3,}[\s|+\u2500-\u257f-]*")
_TITLE = re.compile(r"^\s*[+╭┌╔┏]")  # a frame's corner
_SIDES = ("|", "│", "║", "┃")
_PLAIN_WORDS = {  # Python's words about a wrong number, and ours, which name the flag first
    r"'\('(-\S+?)',\)'": r"'\1'",  # tyro before 1.0.11 shows a tuple
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
    parts = _paragraphs(_COLOURS.sub("", box))
    mistake, rest = " ".join(parts[0]).rstrip("."), [line for part in parts[1:] for line in part]
    for pattern, words in _PLAIN_WORDS.items():
        mistake = re.sub(pattern, words, mistake)
    near = next((line.split()[0] for line in rest if line.startswith("--")), None)
    if near and any(line.lower().startswith("perhaps you meant") for line in rest):
        return f"{mistake}; did you mean {near}?"
    return mistake or "the flags cannot be read"


def _paragraphs(box: str) -> list[list[str]]:
    """The lines of a box without its frame, and without the title in it, divided at its rules."""
    lines = box.splitlines()
    has_title = len(lines) > 1 and bool(
        _TITLE.match(lines[0]) or (_RULE.fullmatch(lines[1]) and not lines[0].startswith(_SIDES))
    )
    parts: list[list[str]] = [[]]
    for line in lines[1:] if has_title else lines:
        if _RULE.fullmatch(line):
            parts.append([])
        elif text := _USAGE.sub("", _FRAME.sub("", line)):
            parts[-1].append(text)
    return [part for part in parts if part] or [[_FRAME.sub("", line) for line in lines[:1]]]
