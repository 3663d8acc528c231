"""Output folders: nothing that a user has is ever overwritten."""

import itertools
from pathlib import Path

from metapl.schema import ConfigError


def claim(folder: Path) -> Path:
    """Make the folder, or take it if it is empty; refuse anything else."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        occupied = any(folder.iterdir())
        probe = folder / ".metapl-write-test"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ConfigError(f"--out {folder} cannot be used as a folder to write to: {error.strerror}") from None
    if occupied:
        raise ConfigError(f"--out {folder} is not empty, and nothing in it is overwritten; choose another folder")
    return folder


def next_free(folder: Path) -> Path:
    """The folder itself where it is free, else the first of folder-2, folder-3, … that is."""
    names = itertools.chain([folder], (folder.with_name(f"{folder.name}-{i}") for i in itertools.count(2)))
    return next(name for name in names if not name.exists() or (name.is_dir() and not any(name.iterdir())))
