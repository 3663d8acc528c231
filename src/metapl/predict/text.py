"""Write names of files and classes, which may hold any characters, safely into CSV cells and terminal lines."""

from pathlib import Path

# Spreadsheets take these for the beginning of a formula, which could run a program when a CSV is opened.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def path_cell(path: Path) -> str:
    """Write a path so that it can be opened; one that looks like a formula gets the prefix ./, the same file."""
    text = _as_text(str(path))
    return f"./{text}" if text.startswith(_FORMULA) else text


def cell(text: str) -> str:
    """Write a text so that a spreadsheet shows it; one that looks like a formula, not a number, gets a quote first."""
    text = _as_text(text)
    return f"'{text}" if text.startswith(_FORMULA) and not _is_number(text) else text


def on_a_line(text: str) -> str:
    """Write a text on one terminal line: line breaks, escape sequences and invalid bytes are shown as escapes."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def _as_text(text: str) -> str:
    r"""Write bytes that are not UTF-8 as \udcff and the like, so that the file remains valid UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
