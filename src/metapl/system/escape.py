"""Texts of others, such as names of classes and folders, made harmless: they are shown, never obeyed."""

import html
import re

# What no page and no terminal should be given: control characters, halves of characters, and marks that turn the
# direction of all text after them.
_UNFIT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069\ufffe\uffff]")
_MARKDOWN = re.compile(r"([\\`*_\[\]<>|~&$]|^[#+=-](?!\d))")
_NUMBERED = re.compile(r"^(\d+)([.)])(?!\d)")


def clean(text: str) -> str:
    """Leave out what cannot be shown."""
    return _UNFIT.sub("\ufffd", text)


def markup(text: str) -> str:
    """For HTML and SVG, in texts and in attributes."""
    return html.escape(clean(text), quote=True)


def markdown(text: str) -> str:
    """For Markdown, in paragraphs and in tables: one line, in which nothing is markup."""
    line = _MARKDOWN.sub(r"\\\1", " ".join(clean(text).split()))
    return _NUMBERED.sub(r"\1\\\2", line)


def shortened(text: str, most: int) -> str:
    """Cut what has no room."""
    return text if len(text) <= most else text[: most - 1] + "…"
