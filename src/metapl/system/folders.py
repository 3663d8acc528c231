"""Output folders, which are never overwritten, and the folder where a run began."""

import errno
import glob
import itertools
import os
import shutil
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from metapl.schema import ConfigError
from metapl.system.disk import UNFINISHED
from metapl.system.lock import take

_PROBE = ".metapl-write-test"


def claim(folder: Path, ours: Collection[str] = ()) -> Path:
    """Make the folder, or use it if it is empty; otherwise raise ConfigError.

    Files named in `ours` do not count: a start that was killed may have left them.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        occupied = _is_occupied(folder, ours)
        _probe(folder / _PROBE)
    except OSError as error:
        raise ConfigError(f"--out {folder} cannot be used as a folder to write to: {error.strerror}") from None
    if occupied:
        raise _not_empty(folder)
    return folder


def _not_empty(folder: Path) -> ConfigError:
    return ConfigError(f"--out {folder} is not empty, and nothing in it is overwritten; choose another folder")


@contextmanager
def all_or_nothing(out: Path) -> Iterator[Path]:
    """Yield a new folder beside `out` to write into; at the end of the block it becomes `out`, which must be empty.

    A command that is killed leaves `out` empty, so that the same command can be given again; that one also deletes the
    folder that the killed one has left. Of two commands at once, the first to end wins. A folder that cannot be
    replaced (a container's volume, the current folder) is written to directly.
    """
    out = out.absolute()
    if os.path.ismount(out) or out == Path.cwd() or not os.access(out.parent, os.W_OK):
        yield out
        return
    for left in out.parent.glob(f".{glob.escape(out.name)}.{'[0-9a-f]' * 32}{UNFINISHED}"):
        if _is_left(left):
            shutil.rmtree(left, ignore_errors=True)
    place = out.with_name(f".{out.name}.{uuid.uuid4().hex}{UNFINISHED}")
    place.mkdir()
    descriptor = os.open(place, os.O_RDONLY)
    try:
        take(descriptor)
        yield place
        place.rename(out)  # it replaces an empty folder, at once
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise _not_empty(out) from None
        raise
    finally:
        os.close(descriptor)
        shutil.rmtree(place, ignore_errors=True)


def _is_left(place: Path) -> bool:
    """Whether no process writes into an unfinished folder any more."""
    descriptor = os.open(place, os.O_RDONLY)
    try:
        return take(descriptor)
    finally:
        os.close(descriptor)


def next_free(folder: Path, ours: Collection[str] = ()) -> Path:
    """The folder itself if it is new or empty, else the first of folder-2, folder-3, … that is."""
    names = itertools.chain([folder], (folder.with_name(f"{folder.name}-{i}") for i in itertools.count(2)))
    return next(name for name in names if not name.exists() or (name.is_dir() and not _is_occupied(name, ours)))


@contextmanager
def where_run_began(environment: Mapping[str, Any], more: Sequence[Path] = ()) -> Iterator[list[Path]]:
    """Work in the folder where a run began, if it still exists: paths in its settings may be relative to it.

    `environment` is the content of the run's environment.json; entries of a wrong type are ignored. Yields the folders
    where the run's data may be: `more`, which the user names, then those that the run used.
    """
    noted, began_in = environment.get("data_folders"), environment.get("folder")
    recorded = [Path(folder) for folder in noted if isinstance(folder, str)] if isinstance(noted, list) else []
    folders = [*(folder.absolute() for folder in more), *recorded]
    there = Path(began_in) if isinstance(began_in, str) else None
    with chdir(there) if there is not None and there.is_dir() else nullcontext():
        yield folders


def _is_occupied(folder: Path, ours: Collection[str]) -> bool:
    return any(entry.name != _PROBE and entry.name not in ours for entry in folder.iterdir())


def _probe(file: Path) -> None:
    """Try to write: a full disk can still create a file, but cannot hold its bytes."""
    try:
        file.write_bytes(bytes(4096))
    finally:
        file.unlink(missing_ok=True)
