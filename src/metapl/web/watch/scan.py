"""See whether anything has changed in the watched folders, by names, sizes and times of files; no file is read."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from metapl.runs import find
from metapl.system import lock

# The files that a page is made of; checkpoints and weights are not needed for it.
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


class Scan(NamedTuple):
    """The state of the folders at one time; equal scans give the same page."""

    files: Mapping[Path, tuple[tuple[int, int], ...]]  # for each run: size and time of each of its files
    working: frozenset[Path]  # runs or given folders in which a process works
    gone: frozenset[Path]  # given folders that do not exist


def scan(places: Sequence[Path]) -> Scan:
    """Scan all runs in these folders or below them, also new ones."""
    paths = find.below(places)
    held = frozenset(path for path in {*paths, *places} if lock.holder(path / lock.FILE) is not None)
    files = {path: tuple(_size_and_time(path / name) for name in FILES) for path in paths}
    return Scan(files, held, frozenset(place for place in places if not os.path.isdir(place)))


def _size_and_time(path: Path) -> tuple[int, int]:
    """A file's size and time of change; (-1, 0) if it is missing."""
    try:
        status = path.stat()
    except OSError:
        return (-1, 0)
    return status.st_size, status.st_mtime_ns
