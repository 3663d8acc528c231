"""Has anything changed in the folders that are watched? Told from names, sizes and times: nothing is read."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from metapl.runs import find as runs
from metapl.system import lock

# What a page is made of; checkpoints and weights are not.
FILES = (
    "config.toml",
    "environment.json",
    "split.json",
    "metrics.jsonl",
    "warnings.jsonl",
    "evaluations.csv",
    "confusion.npz",
    "result.json",
)


class Look(NamedTuple):
    """How things are at one time; two that are equal give the same page."""

    files: Mapping[Path, tuple[tuple[int, int], ...]]  # of each run: size and time of each of its files
    working: frozenset[Path]  # runs, or folders that were given, that a process is at work in
    gone: frozenset[Path]  # folders that were given and are none


def look(places: Sequence[Path]) -> Look:
    """Look at all runs in these folders or below them; new ones are found, too."""
    found = runs.below(places)
    held = frozenset(path for path in {*found, *places} if runs.holder(path / lock.FILE) is not None)
    files = {path: tuple(_trace(path / name) for name in FILES) for path in found}
    return Look(files, held, frozenset(place for place in places if not os.path.isdir(place)))


def _trace(path: Path) -> tuple[int, int]:
    """A file's size and time; that of none is nobody's."""
    try:
        found = path.stat()
    except OSError:
        return (-1, 0)
    return found.st_size, found.st_mtime_ns
