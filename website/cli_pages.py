"""The command line's reference, made by the parsers that read the flags; nothing on the page is written by hand."""

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

# Words that a verb needs before it knows its flags.
FIRST_WORDS = {
    "train": ["digits_mpl_small"],
    "plan": ["digits_mpl_small"],
    "bench": ["mlp"],
}
SHORT = ("plan", "bench")  # they have the settings of train, which are not listed again


class ParserReached(Exception):  # noqa: N818 - not an error: it stops a verb before it reads its flags
    """Carries the parser with which a verb was about to read its flags: argparse's, or tyro's copy of it."""

    def __init__(self, parser: Any) -> None:
        self.parser = parser


def page() -> str:
    """The whole page, as Markdown with tables in HTML."""
    groups = [*cli.GROUPS.values(), {f"data {name}": verb for name, verb in data.VERBS.items()}]
    verbs = {name: verb.load() for group in groups for name, verb in group.items() if name != "data"}
    return "\n\n".join(_verb(name, function) for name, function in verbs.items())


def parser(args: Sequence[str]) -> Any:
    """The parser of one verb; the verb itself does not run, because every verb calls tyro.cli first."""

    def stop(cls: Any, *, args: Any, **settings: Any) -> NoReturn:
        del args
        with warnings.catch_warnings():  # tyro will remove get_parser one day; pyproject.toml limits its versions
            warnings.simplefilter("ignore", DeprecationWarning)
            raise ParserReached(tyro.extras.get_parser(cls, **settings))

    with unittest.mock.patch.object(tyro, "cli", stop):
        try:
            cli.main(args)
        except ParserReached as reached:
            return reached.parser
    raise AssertionError(f"metapl {' '.join(args)} reads no flags")


def _verb(name: str, function: Callable[..., None]) -> str:
    verb_parser = parser([*name.split(), *FIRST_WORDS.get(name, [])])
    text, _, examples = (function.__doc__ or "").partition("Examples:")
    commands = [line.strip() for line in examples.splitlines() if line.strip()]
    parts = [f"## metapl {name}", *map(_paragraph, re.split(r"\n\s*\n", text.strip()))]
    if commands:
        parts.append("\n".join(f"    {command}" for command in commands))
    if first := FIRST_WORDS.get(name):
        parts.append(f"The values below are those of `metapl {name} {' '.join(first)}`.")
    if name in SHORT:
        parts.append("Every setting of [metapl train](#metapl-train) is a flag here, too.")
    groups = verb_parser._action_groups
    named = {str(group.title).removesuffix(" options"): group for group in groups if _flags(group)}
    first_table = [_flags(named.pop(title)) for title in ("positional arguments", "options") if title in named]
    parts.append(_table([action for actions in first_table for action in actions]))
    for title, group in named.items() if name not in SHORT else ():
        parts += [f"**{title}**{{: .group }}", _paragraph(group.description or ""), _table(_flags(group))]
    return "\n\n".join(filter(None, parts))


def _flags(group: Any) -> list[argparse.Action]:
    return [action for action in group._group_actions if action.dest != "help"]


def _table(actions: Sequence[argparse.Action]) -> str:
    rows = []
    for action in actions:
        sentence, default = _split(str(action.help or ""))
        name = " ".join(filter(None, [" / ".join(action.option_strings), _metavar(action)]))
        value = f"<code>{html.escape(default)}</code>" if default else ""
        cells = f"<td><code>{html.escape(name)}</code></td><td>{html.escape(sentence)}</td><td>{value}</td>"
        rows.append(f"<tr>{cells}</tr>")
    head = "<thead><tr><th>flag</th><th>meaning</th><th>default</th></tr></thead>"
    return f'<table class="flags">{head}<tbody>{"".join(rows)}</tbody></table>'


def _split(text: str) -> tuple[str, str]:
    """A help text's sentence, and the default that tyro writes after it."""
    match = re.fullmatch(r"(.*?)\s*\((?:default: (.*)|required)\)", " ".join(text.split()).replace("%%", "%"))
    if not match:
        return " ".join(text.split()), ""
    return match[1], (match[2] or "").replace("None", "")


def _metavar(action: argparse.Action) -> str:
    value = action.metavar
    return (" ".join(value) if isinstance(value, tuple) else str(value or "")).replace("{None}|", "")


def _paragraph(text: str) -> str:
    """A paragraph of HTML; names of docs pages become links."""
    words = html.escape(" ".join(text.split()))
    linked = re.sub(r"docs/(\w+)\.md", r'<a href="\1.html">docs/\1.md</a>', words)
    return f"<p>{linked}</p>" if words else ""
