"""Names of files and classes may hold anything; what is written of them is still one cell, one line, one meaning."""

from pathlib import Path

# What spreadsheets take for the beginning of a formula, which could run a program when a CSV is opened.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def path_cell(path: Path) -> str:
    """Write a path as it can be opened; one that looks like a formula begins with ./, which is the same file."""
    text = _as_text(str(path))
    return f"./{text}" if text.startswith(_FORMULA) else text


def cell(text: str) -> str:
    """Write a text so that a spreadsheet shows it: what looks like a formula, and is no number, begins with a quote."""
    text = _as_text(text)
    return f"'{text}" if text.startswith(_FORMULA) and not _is_number(text) else text


def on_a_line(text: str) -> str:
    """Show a text in a terminal: line breaks, escape sequences and bytes that are no text become visible."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def _as_text(text: str) -> str:
    r"""Bytes of a name that are no UTF-8 become \udcff and the like: with them in it, a file would be no text."""
    return text.encode("utf-8", "backslashreplace").decode()


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
