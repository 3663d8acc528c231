"""Write files completely or not at all, and explain errors of the disk."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from metapl.schema import ConfigError

UNFINISHED = ".new"  # suffix of a file that is still being written
_REFUSALS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)
# What the user's files and limits can cause, and a mistake in the program hardly: rights, loops of links, long names.
_OF_THE_SYSTEM = (*_REFUSALS, errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOTDIR, errno.EMFILE,
                  errno.ENFILE, errno.ESTALE, errno.ENOMEM, errno.ENOTCONN)  # fmt: skip


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that readers see the old content or the new, never a part of it, even after a crash."""
    new = path.with_name(f"{path.name}{UNFINISHED}")
    try:
        with new.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as error:  # a partial file is useless, and takes room on a full disk
        with suppress(OSError):
            new.unlink()
        error.filename = str(path)  # write errors name no file, and open errors name the unfinished one
        raise
    sync(path.parent)


def move_to_free(source: Path, path: Path) -> None:
    """Rename a finished file to `path`; raise ConfigError if that exists, and overwrite nothing."""
    try:
        os.link(source, path)
    except FileExistsError:
        raise ConfigError(f"{path} already exists, and is not overwritten; the result was saved as {source}") from None
    except OSError:  # a file system without links
        source.replace(path)
    else:
        source.unlink()


def sync(path: Path) -> None:
    """Force a file's bytes, or a folder's names, to the disk; otherwise a rename may reach it before the file does."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def explaining_disk_errors(run: Path, then: str = "") -> Iterator[None]:
    """Turn a disk error into a ConfigError that says what to do `then`: by default, to resume the run."""
    try:
        yield
    except OSError as error:
        why = f"{error.filename or run} could not be written: {reason(error)} ({free(run)} free)"
        raise ConfigError(f"{why}; when that is fixed, {then or f'metapl resume {run} continues'}") from None


def is_refusal(error: OSError) -> bool:
    """Whether the system refused, as it may with any program (a disk is full or read-only, rights are missing)."""
    return error.errno in _OF_THE_SYSTEM


def reason(error: Exception) -> str:
    """The system's short message for a write error, taken out of the long messages of libraries."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    known = (os.strerror(number) for number in _REFUSALS)
    lines = str(error).splitlines() or [type(error).__name__]
    return next((words for words in known if words in str(error)), lines[0])


def free(folder: Path) -> str:
    """How much space the disk has left, in words."""
    try:
        left = float(shutil.disk_usage(folder).free)
    except OSError:
        return "an unknown amount"
    for unit in ("bytes", "kB", "MB", "GB"):
        if left < 1000:
            return f"{left:.3g} {unit}"
        left /= 1000
    return f"{left:.3g} TB"
