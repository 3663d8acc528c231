"""One process at a time works on a run.

The lock is the system's own (`flock`): it ends with the process that holds it, however that one ends, so a lock file
that is left behind means nothing. The file names the process for whoever is refused.
"""

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from metapl.schema import ConfigError

FILE = "lock"
PATIENCE_S = 10.0  # for the children of a killed process, which hold its lock until they have noticed


@contextmanager
def locked(folder: Path, patience_s: float = PATIENCE_S) -> Iterator[None]:
    """Hold the lock of a run's folder while the block lasts; refuse if another process has it."""
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


def _take(file: IO[str], folder: Path, until: float) -> None:
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            pid, host = (*file.read().split(), "?", "?")[:2]
            if _is_gone(pid, host) and time.monotonic() < until:
                time.sleep(0.1)
                continue
            raise ConfigError(
                f"process {pid} on {host} is at work in {folder}: wait for its end, or end it (kill {pid} lets it save)"
            ) from None
        except OSError as error:
            raise ConfigError(f"{folder} cannot be locked on this file system: {error.strerror}") from None
        return


def _is_gone(pid: str, host: str) -> bool:
    """Is the process that the lock names certainly over?"""
    if host != socket.gethostname() or not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        pass
    return False
