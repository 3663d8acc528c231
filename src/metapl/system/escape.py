"""Escape texts from outside, such as names of classes and folders, so that pages show them and never run them."""

import html
import re

# What no page and no terminal should get: control characters, lone surrogates, and marks that change the direction of
# all text after them.
_UNFIT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069\ufffe\uffff]")
_MARKDOWN = re.compile(r"([\\`*_\[\]<>|~&$]|^[#+=-](?!\d))")
_NUMBERED = re.compile(r"^(\d+)([.)])(?!\d)")


def clean(text: str) -> str:
    """Replace characters that cannot be shown."""
    return _UNFIT.sub("\ufffd", text)


def markup(text: str) -> str:
    """Escape for HTML and SVG, in texts and in attributes."""
    return html.escape(clean(text), quote=True)


def markdown(text: str) -> str:
    """Escape for Markdown, in paragraphs and in tables: one line, in which nothing is markup."""
    line = _MARKDOWN.sub(_escaped, " ".join(clean(text).split()))
    return _NUMBERED.sub(r"\1\\\2", line)


def _escaped(match: re.Match[str]) -> str:
    """Entities for what could be HTML: some programs pass HTML on as it is, backslash or not."""
    return f"&#{ord(match[0])};" if match[0] in "<>&" else f"\\{match[0]}"


def shortened(text: str, most: int) -> str:
    """Cut a text to `most` letters."""
    return text if len(text) <= most else text[: most - 1] + "…"
