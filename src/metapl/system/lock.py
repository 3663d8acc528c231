"""File locks: one process at a time works on a folder, and others can see whether it is alive.

The lock is the system's own (`flock`). It ends with the process that holds it, however that process ends, so a lock
file that is left behind means nothing. The file names the process, for those who are refused.
"""

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from metapl.schema import ConfigError

FILE = "lock"
PATIENCE_S = 10.0  # the children of a killed process hold its lock until they notice


class LockedError(ConfigError):
    """Another process works in the folder."""


@contextmanager
def locked(folder: Path, patience_s: float = PATIENCE_S) -> Iterator[None]:
    """Hold the lock of a folder while the block runs; raise LockedError if another process holds it."""
    try:
        file = (folder / FILE).open("a+", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written to: {error.strerror}") from None
    with file:
        _take(file, folder, time.monotonic() + patience_s)
        file.truncate(0)
        file.write(f"{os.getpid()} {socket.gethostname()}\n")
        file.flush()
        yield


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold a lock file of this process's own while the block runs, then delete it."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def take(file: IO[Any] | int) -> bool:
    """Lock an open file or folder until it is closed; False if another process has locked it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def is_held(path: Path) -> bool:
    """Whether a process holds this lock; False if the file is missing."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # released when the file is closed
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def holder(path: Path) -> int | None:
    """The id of the process that holds a folder's lock, as the lock file names it; None if none does."""
    try:
        with path.open("rb") as file:
            pid, *host = file.read(256).decode("utf-8", "replace").split()
        if host in ([], [socket.gethostname()]) and _is_gone(int(pid)):
            return None
        return int(pid) if is_held(path) else None
    except (OSError, ValueError):
        return None


def _take(file: IO[str], folder: Path, until: float) -> None:
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            pid, host = (*file.read().split(), "?", "?")[:2]
            gone = host == socket.gethostname() and pid.isdigit() and _is_gone(int(pid))
            if gone and time.monotonic() < until:
                time.sleep(0.1)
                continue
            raise LockedError(
                f"process {pid} on {host} is working in {folder}: wait until it ends, or stop it with kill {pid}, "
                "which lets it save"
            ) from None
        except OSError as error:
            raise ConfigError(f"{folder} cannot be locked on this file system: {error.strerror}") from None
        return


def _is_gone(pid: int) -> bool:
    """Whether this machine certainly has no such process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        pass
    return False
