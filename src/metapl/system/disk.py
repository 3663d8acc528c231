"""Files that are whole or not there at all, and what to say when a disk does not take them."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from metapl.schema import ConfigError

GROWING = ".new"  # ends the name of a file that is not whole yet
_REFUSALS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file as a whole: whoever reads it, after a crash too, sees the old one or the new one."""
    new = path.with_name(f"{path.name}{GROWING}")
    try:
        with new.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as error:  # half a file is of no use, and a full disk has no room for it
        with suppress(OSError):
            new.unlink()
        error.filename = str(path)  # writing does not tell, and opening names the growing one
        raise
    sync(path.parent)


def give_name(made: Path, path: Path) -> None:
    """Give a file that is whole now its name, unless something else has it: that is never overwritten."""
    try:
        os.link(made, path)
    except FileExistsError:
        raise ConfigError(f"{path} has come to be there meanwhile, and is left alone; the result is {made}") from None
    except OSError:  # a file system without links
        made.replace(path)
    else:
        made.unlink()


def sync(path: Path) -> None:
    """Have a file's bytes, or a folder's names, on the disk: renaming alone may come there before what is renamed."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def explaining_disk_errors(run: Path, then: str = "") -> Iterator[None]:
    """Turn a disk's refusal into a sentence, and say what to do `then`; a run can go on from its checkpoints."""
    try:
        yield
    except OSError as error:
        why = f"{error.filename or run} could not be written: {reason(error)} ({free(run)} free)"
        raise ConfigError(f"{why}; when that is mended, {then or f'metapl resume {run} goes on'}") from None


def is_refusal(error: OSError) -> bool:
    """Is it the disk that takes no more, rather than a mistake of ours?"""
    return error.errno in _REFUSALS


def reason(error: Exception) -> str:
    """Why something could not be written, in the system's few words; libraries wrap them into many."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    known = (os.strerror(number) for number in _REFUSALS)
    lines = str(error).splitlines() or [type(error).__name__]
    return next((words for words in known if words in str(error)), lines[0])


def free(folder: Path) -> str:
    """How much the disk can still take."""
    try:
        left = float(shutil.disk_usage(folder).free)
    except OSError:
        return "an unknown amount is"
    for unit in ("bytes", "kB", "MB", "GB"):
        if left < 1000:
            return f"{left:.3g} {unit}"
        left /= 1000
    return f"{left:.3g} TB"
