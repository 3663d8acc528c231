"""Blocks of code and commands in README and docs."""

import re
import shlex
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

_CALL = re.compile(r"""(?:^|[\s"'`(])metapl (?=[a-z-])(?!import )""")
_ENDS = ("|", "&&", ";", "||", "…", "(later,", ">", "fi")
_PLACEHOLDERS = {
    r"\$\w+": "1",
    r"\bPRESET\b": "digits_mpl_small",
    r"_NAME_": "_mpl_",
    r"\bNAME\b": "digits_mpl_small",
    r"\.\.\.": "",
}


class Command(NamedTuple):
    """A `metapl` command in a page."""

    page: str
    words: list[str]
    whole: bool  # a line of a block, which can be run as it is; otherwise words in a sentence

    def __str__(self) -> str:
        return f"{self.page}: metapl {' '.join(self.words)}"


def blocks(text: str) -> list[str]:
    """Blocks that are indented by four or fenced, without the margin; no lists."""
    fenced = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    indented = re.findall(r"(?:(?<=\n\n)|^)((?:    .*\n|\n(?=    ))+)", text)
    return fenced + [re.sub(r"^    ", "", block, flags=re.MULTILINE) for block in indented if block.strip()]


def commands() -> list[Command]:
    """Every command of every page, each once."""
    found: dict[str, Command] = {}
    for page in PAGES:
        text = page.read_text("utf-8")
        inside = [line for block in blocks(text) for line in block.splitlines()]
        spans = re.findall(r"`([^`\n]+)`", re.sub(r"^(?:    |```).*$", "", text, flags=re.MULTILINE))
        for line, whole in [*((line, True) for line in inside), *((span, False) for span in spans)]:
            for match in _CALL.finditer(line):
                command = Command(page.name, words(line[match.end() :]), whole)
                found.setdefault(f"{whole} {command.words}", command)
    return list(found.values())


def words(line: str) -> list[str]:
    """Words as a shell splits them, without comments and without what follows a pipe."""
    for pattern, value in _PLACEHOLDERS.items():
        line = re.sub(pattern, value, line)
    try:
        parts = shlex.split(line, comments=True)
    except ValueError:  # the end of a quote that began before the command
        parts = shlex.split(re.sub(r"""["'\]]+\s*$""", "", line), comments=True)
    parts = [part.rstrip(";") if part.endswith(";") else part for part in parts]
    end = next((i for i, part in enumerate(parts) if part in _ENDS), len(parts))
    return [part for part in parts[:end] if part]
