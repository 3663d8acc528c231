"""Files of lines that a resumed run continues to the same bytes; metrics.jsonl has one for each report.

There are no times in it, and numbers are written so that they are read back to the last bit. What is not finite is
null: JSON has no word for it. A checkpoint notes how long the file was, and its checksum; whatever came later is cut
off when the run goes on from there, as it will come again.
"""

import errno
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import google_crc32c
import numpy as np

from metapl.schema import ConfigError
from metapl.system.disk import explaining_disk_errors
from metapl.types import Numbers

FILE = "metrics.jsonl"


class Mark(NamedTuple):
    """A place in the file, and what lies before it."""

    length: int = 0
    crc32c: int = 0


class Journal:
    """The file, open for as long as the run works."""

    def __init__(self, path: Path, mark: Mark = Mark()) -> None:  # noqa: B008 (it never changes)
        """Go on from a mark: what lies behind it is cut off, what lies before it must be as it was."""
        self._path, self._mark = path, mark
        with explaining_disk_errors(path.parent):
            self._file = path.open("a+b", buffering=0)
            self._file.seek(0)
            found = self._file.read(mark.length)
            if Mark(len(found), google_crc32c.value(found)) != mark:
                self._file.close()
                raise ConfigError(
                    f"{path} is not what it was at the checkpoint: lines are missing or were changed; put the old file "
                    "back to go on"
                )
            self._file.truncate(mark.length)

    def write(self, seeds: Sequence[int], stage: int, step: int, numbers: Numbers) -> None:
        """Add the line of a report."""
        values = {name: _plain(values.tolist()) for name, values in sorted(numbers.items())}
        self.add({"seeds": list(seeds), "stage": stage, "step": step} | values)

    def add(self, line: Mapping[str, Any]) -> None:
        """Add a line of any kind."""
        data = json.dumps(line, allow_nan=False).encode() + b"\n"
        with explaining_disk_errors(self._path.parent):
            if self._file.write(data) != len(data):  # a disk that is nearly full takes a part
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
        self._mark = Mark(self._mark.length + len(data), google_crc32c.extend(self._mark.crc32c, data))

    def sync(self) -> Mark:
        """Have all lines on the disk, and say where the file ends."""
        with explaining_disk_errors(self._path.parent):
            os.fsync(self._file.fileno())
        return self._mark

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


class Unwritten(Journal):
    """That of a process which writes none, as another one does."""

    def __init__(self) -> None:
        pass

    def write(self, seeds: Sequence[int], stage: int, step: int, numbers: Numbers) -> None:
        """Let it go."""

    def add(self, line: Mapping[str, Any]) -> None:
        """Let it go."""

    def sync(self) -> Mark:
        """There is nothing."""
        return Mark()

    def close(self) -> None:
        """There is nothing."""


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value if np.isfinite(value) else None
