"""Which pictures someone means: files, folders with all that is below them, and patterns such as 'photos/**/*.jpg'.

Nothing is listed before it is asked for, so that millions of pictures need no more memory than one folder's names.
"""

import glob
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from metapl.data.decode import SUFFIXES


class Found(NamedTuple):
    """A picture to be read, or a place where none can be."""

    path: Path
    problem: str = ""


def find(words: Iterable[str]) -> Iterator[Found]:
    """Yield the pictures that the words name, in their order; a file of just that name comes before a pattern.

    A file that is named is taken for a picture whatever it is called; below a folder its suffix decides.
    """
    for word in words:
        yield from _at(Path(word)) if os.path.lexists(word) or not glob.has_magic(word) else _matching(word)


def _matching(pattern: str) -> Iterator[Found]:
    """What a pattern matches, in order; photos/**/* matches folders and what is in them, but names each file once."""
    matches = sorted(glob.glob(pattern, recursive=True))
    if not matches:
        yield Found(Path(pattern), "nothing matches this pattern")
    suffix = os.path.splitext(pattern)[1]
    named = bool(suffix) and not glob.has_magic(suffix)
    walked: set[Path] = set()
    for path in map(Path, matches):
        if not walked.isdisjoint(path.parents):
            continue
        if path.is_dir():
            walked.add(path)
        yield from _at(path, named)


def _at(path: Path, named: bool = True) -> Iterator[Found]:
    if not path.is_dir():
        if named or is_picture(path.name):
            yield Found(path)
        return
    empty = True
    for found in walk(path):
        empty = False
        yield found
    if empty:
        yield Found(path, f"the folder has no pictures ({', '.join(sorted(SUFFIXES))})")


def walk(place: Path) -> Iterator[Found]:
    """Every picture below a folder, in the order of their paths as texts; hidden ones and linked folders are left out.

    The order is that of sorting all paths, one folder at a time: a folder's slash counts as a letter of its name.
    """
    try:
        with os.scandir(place) as entries:
            known = sorted((entry.name + "/" * entry.is_dir(), entry.is_symlink()) for entry in entries)
    except OSError as error:
        yield Found(place, error.strerror or str(error))
        return
    for name, linked in known:
        if name.startswith("."):
            continue
        if name.endswith("/"):
            if not linked:
                yield from walk(place / name)
        elif is_picture(name):
            yield Found(place / name)


def is_picture(name: str) -> bool:
    """Does a file's name say that it is a picture, and not a hidden one?"""
    return not name.startswith(".") and os.path.splitext(name)[1].lower() in SUFFIXES
