"""A file of predictions that grows batch by batch, and that a later call continues after a stop or a crash.

NAME.npy is float16 [N, classes], the format that `metapl data select` reads. Until it is complete it is called
NAME.npy.partial. NAME.npy.json says what the predictions depend on (`origin`: weights, examples, view) and how many
rows are done. Files with another origin are never overwritten.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from metapl.schema import ConfigError
from metapl.system.disk import move_to_free, write_atomically
from metapl.system.sharding import to_host
from metapl.types import Weights

Stored = NDArray[np.float16]
Origin = Mapping[str, Any]  # must have "rows", the number of examples


class FileProgress(NamedTuple):
    """What a file says about itself."""

    rows: int  # done so far
    details: dict[str, Any]  # what the last `write` noted


class PredictionsFile:
    """One such file, and the two beside it."""

    def __init__(self, path: Path, origin: Origin, classes: int) -> None:
        self.path = path
        self.partial, self.note = paths_beside(path)
        self._origin, self._shape = origin, (int(origin["rows"]), classes)
        self._rows: Any = None  # the array that grows, mapped into memory

    def progress(self, beside: Sequence[Path] = ()) -> FileProgress:
        """Read how much is done; ConfigError if the files, or those `beside` them, belong to something else."""
        present = [file for file in (self.path, self.partial, *beside) if file.exists()]
        if not present:
            return FileProgress(0, {})
        progress = self._read_note(present[0])
        if self.path.exists():
            self.read()
            return progress._replace(rows=self._shape[0])
        if not self.partial.exists() or not progress.rows:
            return FileProgress(0, {})
        _map(self.partial, self._shape)
        return progress

    def write(self, start: int, rows: NDArray[np.generic], details: Mapping[str, Any] | None = None) -> None:
        """Store rows from `start` on, then note them as done: a crash between the two costs one batch."""
        if self._rows is None:
            self._rows = self._open(new=start == 0)
        end = start + len(rows)
        self._rows[start:end] = rows
        self._rows.flush()
        self._write_note(end, details or {})

    def finish(self) -> None:
        """Give the complete file its name."""
        move_to_free(self.partial, self.path)

    def read(self) -> Stored:
        """Map the complete file into memory; ConfigError if it is damaged."""
        return _map(self.path, self._shape)

    def _open(self, new: bool) -> Any:
        if not new:
            return np.load(self.partial, mmap_mode="r+", allow_pickle=False)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._write_note(0, {})
        array = np.lib.format.open_memmap(self.partial, "w+", np.float16, self._shape)
        if hasattr(os, "posix_fallocate"):  # macOS has none
            with self.partial.open("r+b") as file:  # on a full disk, writing to the map would kill the process
                os.posix_fallocate(file.fileno(), 0, self.partial.stat().st_size)
        return array

    def _write_note(self, done: int, details: Mapping[str, Any]) -> None:
        content = {**self._origin, "done": done, **details}
        write_atomically(self.note, (json.dumps(content, indent=2) + "\n").encode())

    def _read_note(self, file: Path) -> FileProgress:
        try:
            note = json.loads(self.note.read_text("utf-8"))
            origin = {name: note.pop(name, None) for name in self._origin}
            rows = int(note.pop("done"))
            if not 0 <= rows <= self._shape[0]:
                raise ValueError(rows)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise ConfigError(
                f"{file}: its metadata file {self.note.name} is missing or damaged; move or delete {file.name}"
            ) from None
        if origin != json.loads(json.dumps(self._origin)):
            raise ConfigError(
                f"{file} holds predictions of another network or for other examples; move or delete it, or choose "
                "another name"
            )
        return FileProgress(rows, note)


def paths_beside(path: Path) -> tuple[Path, Path]:
    """Where the growing array is, and where the note is."""
    return path.with_name(f"{path.name}.partial"), path.with_name(f"{path.name}.json")


def weights_sha256(weights: Weights, seed: int | None = None) -> str:
    """Hash one network's weights; `seed` chooses from weights with a leading axis for the seeds."""
    digest = hashlib.sha256()
    for place, leaf in jax.tree_util.tree_leaves_with_path(weights):
        own = leaf if seed is None else leaf[seed]
        digest.update(f"{jax.tree_util.keystr(place)} {own.dtype} {own.shape}\n".encode())
        digest.update(np.ascontiguousarray(to_host(own)).data)
    return digest.hexdigest()


def _map(path: Path, shape: tuple[int, int]) -> Stored:
    """Map a file into memory, read-only. A damaged file is reported and left alone: only the user may delete it."""
    try:
        stored: Stored = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        raise ConfigError(
            f"{path} is damaged: it holds no complete array; move or delete it, and it is computed again"
        ) from None
    if stored.dtype != np.float16 or stored.shape != shape:
        raise ConfigError(
            f"{path} was replaced: it holds {stored.dtype} {list(stored.shape)} instead of float16 {list(shape)}; move "
            "or delete it, and it is computed again"
        )
    return stored
