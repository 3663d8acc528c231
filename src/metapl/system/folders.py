"""Output folders: nothing that a user has is ever overwritten."""

import itertools
from collections.abc import Collection
from pathlib import Path

from metapl.schema import ConfigError

_PROBE = ".metapl-write-test"


def claim(folder: Path, ours: Collection[str] = ()) -> Path:
    """Make the folder, or take it if it is empty; refuse anything else.

    `ours` are names of files that a start which was killed may have left, and that nobody misses.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        occupied = _is_occupied(folder, ours)
        _probe(folder / _PROBE)
    except OSError as error:
        raise ConfigError(f"--out {folder} cannot be used as a folder to write to: {error.strerror}") from None
    if occupied:
        raise ConfigError(f"--out {folder} is not empty, and nothing in it is overwritten; choose another folder")
    return folder


def next_free(folder: Path, ours: Collection[str] = ()) -> Path:
    """The folder itself where it is free, else the first of folder-2, folder-3, … that is."""
    names = itertools.chain([folder], (folder.with_name(f"{folder.name}-{i}") for i in itertools.count(2)))
    return next(name for name in names if not name.exists() or (name.is_dir() and not _is_occupied(name, ours)))


def _is_occupied(folder: Path, ours: Collection[str]) -> bool:
    return any(entry.name != _PROBE and entry.name not in ours for entry in folder.iterdir())


def _probe(file: Path) -> None:
    """Try to write: a full disk still takes a name, but no bytes."""
    try:
        file.write_bytes(bytes(4096))
    finally:
        file.unlink(missing_ok=True)
