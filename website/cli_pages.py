"""The command line's reference, from the parsers that read the flags: nothing on the page is typed by hand."""

import argparse
import html
import re
import unittest.mock
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import tyro

from metapl.cli import data
from metapl.cli import main as cli

# What a verb wants to know before it can say which flags it has.
FIRST_WORDS = {
    "train": ["digits_mpl_small"],
    "plan": ["digits_mpl_small"],
    "bench": ["mlp"],
}
SHORT = ("plan", "bench")  # their settings are those of train


class Asked(Exception):  # noqa: N818 - no error: the flags have been asked for, and that is all that is wanted
    """The parser that a verb was about to read its flags with: argparse's, or tyro's copy of it."""

    def __init__(self, parser: Any) -> None:
        self.parser = parser


def page() -> str:
    """The whole page, as Markdown with tables in HTML."""
    groups = [*cli.GROUPS.values(), {f"data {name}": verb for name, verb in data.VERBS.items()}]
    verbs = {name: verb.load() for group in groups for name, verb in group.items() if name != "data"}
    return "\n\n".join(_verb(name, function) for name, function in verbs.items())


def parser(args: Sequence[str]) -> Any:
    """The parser of one verb; nothing is run, since every verb reads its flags through tyro.cli first."""

    def stop(cls: Any, *, args: Any, **settings: Any) -> NoReturn:
        del args
        with warnings.catch_warnings():  # tyro will drop it one day; pyproject.toml says which versions have it
            warnings.simplefilter("ignore", DeprecationWarning)
            raise Asked(tyro.extras.get_parser(cls, **settings))

    with unittest.mock.patch.object(tyro, "cli", stop):
        try:
            cli.main(args)
        except Asked as asked:
            return asked.parser
    raise AssertionError(f"metapl {' '.join(args)} reads no flags")


def _verb(name: str, function: Callable[..., None]) -> str:
    found = parser([*name.split(), *FIRST_WORDS.get(name, [])])
    told, _, examples = (function.__doc__ or "").partition("Examples:")
    commands = [line.strip() for line in examples.splitlines() if line.strip()]
    parts = [f"## metapl {name}", *map(_paragraph, re.split(r"\n\s*\n", told.strip()))]
    if commands:
        parts.append("\n".join(f"    {command}" for command in commands))
    if first := FIRST_WORDS.get(name):
        parts.append(f"The values below are those of `metapl {name} {' '.join(first)}`.")
    if name in SHORT:
        parts.append("Beside these flags, every setting is one, as in [metapl train](#metapl-train).")
    named = {str(group.title).removesuffix(" options"): group for group in found._action_groups if _flags(group)}
    own = [_flags(named.pop(title)) for title in ("positional arguments", "options") if title in named]
    parts.append(_table([action for actions in own for action in actions]))
    for title, group in named.items() if name not in SHORT else ():
        parts += [f"**{title}**{{: .group }}", _paragraph(group.description or ""), _table(_flags(group))]
    return "\n\n".join(filter(None, parts))


def _flags(group: Any) -> list[argparse.Action]:
    return [action for action in group._group_actions if action.dest != "help"]


def _table(actions: Sequence[argparse.Action]) -> str:
    rows = []
    for action in actions:
        told, default = _split(str(action.help or ""))
        name = " ".join(filter(None, [" / ".join(action.option_strings), _metavar(action)]))
        value = f"<code>{html.escape(default)}</code>" if default else ""
        rows.append(f"<tr><td><code>{html.escape(name)}</code></td><td>{html.escape(told)}</td><td>{value}</td></tr>")
    head = "<thead><tr><th>flag</th><th>what it says</th><th>default</th></tr></thead>"
    return f'<table class="flags">{head}<tbody>{"".join(rows)}</tbody></table>'


def _split(told: str) -> tuple[str, str]:
    """The sentence, and the value that tyro puts behind it."""
    match = re.fullmatch(r"(.*?)\s*\((?:default: (.*)|required)\)", " ".join(told.split()).replace("%%", "%"))
    if not match:
        return " ".join(told.split()), ""
    return match[1], (match[2] or "").replace("None", "")


def _metavar(action: argparse.Action) -> str:
    value = action.metavar
    return (" ".join(value) if isinstance(value, tuple) else str(value or "")).replace("{None}|", "")


def _paragraph(text: str) -> str:
    """Words as they are; the pages that they name are links."""
    words = html.escape(" ".join(text.split()))
    linked = re.sub(r"docs/(\w+)\.md", r'<a href="\1.html">docs/\1.md</a>', words)
    return f"<p>{linked}</p>" if words else ""
