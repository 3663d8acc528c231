"""Files of lines that a resumed run continues to the same bytes; metrics.jsonl has a line for each report.

It holds no times, and numbers keep every bit. Numbers that are not finite are null, as JSON has no word for them. A
checkpoint notes the file's length and checksum. Lines that came later are cut off when the run goes on from there: it
will write them again.
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
    """A position in the file, and the checksum of all before it."""

    length: int = 0
    crc32c: int = 0


class Journal:
    """The file, open while the run trains."""

    def __init__(self, path: Path, mark: Mark = Mark()) -> None:  # noqa: B008 (immutable)
        """Open at a mark: cut off what comes after it; raise ConfigError if what comes before it was changed."""
        self._path, self._mark = path, mark
        with explaining_disk_errors(path.parent):
            self._file = path.open("a+b", buffering=0)
            self._file.seek(0)
            content = self._file.read(mark.length)
            if Mark(len(content), google_crc32c.value(content)) != mark:
                self._file.close()
                raise ConfigError(
                    f"{path} is not what it was at the checkpoint: lines are missing or were changed; restore the old "
                    "file to continue"
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
            if self._file.write(data) != len(data):  # a disk that is nearly full writes a part
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
        self._mark = Mark(self._mark.length + len(data), google_crc32c.extend(self._mark.crc32c, data))

    def sync(self) -> Mark:
        """Force all lines to the disk, and return the file's end."""
        with explaining_disk_errors(self._path.parent):
            os.fsync(self._file.fileno())
        return self._mark

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Unwritten(Journal):
    """A journal that writes nothing: for processes that are not the leader, and runs that record nothing."""

    def __init__(self) -> None:
        pass

    def write(self, seeds: Sequence[int], stage: int, step: int, numbers: Numbers) -> None:
        """Do nothing."""

    def add(self, line: Mapping[str, Any]) -> None:
        """Do nothing."""

    def sync(self) -> Mark:
        """Return the start of the file."""
        return Mark()

    def close(self) -> None:
        """Do nothing."""


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value if np.isfinite(value) else None
