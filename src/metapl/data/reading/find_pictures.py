"""Find the pictures that the user names: files, folders with all below them, and patterns such as 'photos/**/*.jpg'.

Pictures are listed one folder at a time, so that millions of them need no more memory than one folder's names.
"""

import glob
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from metapl.data.reading.decode import SUFFIXES


class FoundPicture(NamedTuple):
    """The path of a picture, or of a problem: a place where no picture can be read."""

    path: Path
    problem: str = ""


def find(words: Iterable[str]) -> Iterator[FoundPicture]:
    """Yield the pictures that the words name, in order; a word that is a file's name is not taken for a pattern.

    A file that is named counts as a picture, whatever its suffix; below a folder the suffix decides.
    """
    for word in words:
        yield from _at(Path(word)) if os.path.lexists(word) or not glob.has_magic(word) else _matching(word)


def _matching(pattern: str) -> Iterator[FoundPicture]:
    """The pictures that a pattern matches, in order, each once: photos/**/* matches folders and the files in them."""
    matches = sorted(glob.glob(pattern, recursive=True))
    if not matches:
        yield FoundPicture(Path(pattern), "nothing matches this pattern")
    suffix = os.path.splitext(pattern)[1]
    named = bool(suffix) and not glob.has_magic(suffix)
    walked: set[Path] = set()
    for path in map(Path, matches):
        if not walked.isdisjoint(path.parents):
            continue
        if path.is_dir():
            walked.add(path)
        yield from _at(path, named)


def _at(path: Path, named: bool = True) -> Iterator[FoundPicture]:
    if not path.is_dir():
        if named or is_picture(path.name):
            yield FoundPicture(path)
        return
    empty = True
    for picture in walk(path):
        empty = False
        yield picture
    if empty:
        yield FoundPicture(path, f"the folder has no pictures ({', '.join(sorted(SUFFIXES))})")


def walk(place: Path) -> Iterator[FoundPicture]:
    """Yield every picture below a folder in the order of its path as text; hidden files are left out.

    The order is that of sorting all paths, one folder at a time: a folder's slash counts as a letter of its name.
    Links to folders are followed, but no picture is given twice: a link to a place inside the folder is skipped, and of
    several links to the same folder elsewhere only the first counts. A link to a parent folder is a problem.
    """
    yield from _below(place, _Walk(Path(os.path.realpath(place)), set()))


class _Walk(NamedTuple):
    """What a walk must remember so that it ends."""

    start: Path
    entered: set[str]  # folders elsewhere, by their real names


def _below(place: Path, walk: _Walk) -> Iterator[FoundPicture]:
    try:
        with os.scandir(place) as entries:
            known = sorted((entry.name + "/" * entry.is_dir(), entry.is_symlink()) for entry in entries)
    except OSError as error:
        yield FoundPicture(place, error.strerror or str(error))
        return
    for name, linked in known:
        if name.startswith("."):
            continue
        if name.endswith("/"):
            yield from _linked(place / name, walk) if linked else _below_once(place / name, walk)
        elif is_picture(name):
            yield FoundPicture(place / name)
        elif linked and not os.path.exists(place / name):
            yield FoundPicture(place / name, "a link whose target does not exist")


def _linked(place: Path, walk: _Walk) -> Iterator[FoundPicture]:
    """The pictures behind a link, unless the walk reaches them anyway."""
    target = Path(os.path.realpath(place))
    if walk.start.is_relative_to(target):
        yield FoundPicture(place, "a link to a folder that contains it")
    elif not target.is_relative_to(walk.start):
        yield from _below_once(place, walk)


def _below_once(place: Path, walk: _Walk) -> Iterator[FoundPicture]:
    real = os.path.realpath(place)
    if not Path(real).is_relative_to(walk.start):
        if real in walk.entered:
            return
        walk.entered.add(real)
    yield from _below(place, walk)


def is_picture(name: str) -> bool:
    """Whether a file's name is that of a picture which is not hidden."""
    return not name.startswith(".") and os.path.splitext(name)[1].lower() in SUFFIXES
