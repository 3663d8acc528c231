"""Features of pictures that were encoded before, whatever their folder and their role: a file of SQLite.

The features of a fit belong to a set of pictures (load.py). If some are labelled, added or removed, that is another
set. What a pretrained network computes for one picture stays the same, so it is kept here by the picture's pixels:
a second fit with some new labels encodes new pictures only. Encoders that learn from the pictures have no such file.
If the file cannot be used (a full disk, a damaged file), pictures are encoded again.
"""

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from metapl.features.frozen import Frozen

WAIT_S = 5.0  # for another process that writes
AT_ONCE = 500  # pictures looked up by one question; SQLite allows some thousands

Pictures = NDArray[np.uint8]  # [N, H, W, C]
Values = NDArray[np.float32]  # [N, D]


class Remembered:
    """A frozen encoder that encodes only pictures which its file does not have."""

    def __init__(self, encode: Frozen, file: Path) -> None:
        scale = encode.encoder.weights.params["scale"]
        self._mean, self._factor = np.asarray(scale["mean"]), np.asarray(scale["factor"])
        self._raw = encode.scaled(np.zeros_like(self._mean), np.ones_like(self._factor))
        self._file = file

    def __call__(self, pictures: Pictures) -> Values:
        """Compute or look up the features: [N, D]."""
        keys = [_key(picture) for picture in pictures]
        known = self._look_up(keys)
        new = [row for row, key in enumerate(keys) if key not in known]
        if new:
            found = {keys[row]: values for row, values in zip(new, self._raw(pictures[new]), strict=True)}
            self._keep(found)
            known |= found
        raw = np.stack([known[key] for key in keys]) if keys else np.zeros((0, len(self._mean)), np.float32)
        return (raw - self._mean) * self._factor

    def known(self, pictures: Pictures) -> int:
        """How many of the pictures the file has."""
        keys = [_key(picture) for picture in pictures]
        found = self._look_up(keys)
        return sum(key in found for key in keys)

    def width(self, shape: tuple[int, ...]) -> int:
        """D, whatever the pictures' shape."""
        return self._raw.width(shape)

    def _look_up(self, keys: list[bytes]) -> dict[bytes, Values]:
        found: dict[bytes, Values] = {}
        with suppress(sqlite3.Error, OSError), self._open() as file:
            for start in range(0, len(keys), AT_ONCE):
                some = keys[start : start + AT_ONCE]
                marks = ",".join("?" * len(some))
                for key, values in file.execute(f"SELECT key, value FROM features WHERE key IN ({marks})", some):
                    if len(values) == 4 * len(self._mean):
                        found[key] = np.frombuffer(values, "<f4")
        return found

    def _keep(self, found: dict[bytes, Values]) -> None:
        rows = [(key, values.astype("<f4").tobytes()) for key, values in found.items()]
        with suppress(sqlite3.Error, OSError), self._open() as file, file:
            file.executemany("INSERT OR REPLACE INTO features VALUES (?, ?)", rows)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(self._file, timeout=WAIT_S)) as file:
            file.execute("PRAGMA synchronous = NORMAL")
            file.execute("CREATE TABLE IF NOT EXISTS features (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID")
            yield file


def _key(picture: Pictures) -> bytes:
    """The picture's shape and pixels, hashed."""
    return hashlib.sha256(repr(picture.shape).encode() + np.ascontiguousarray(picture).tobytes()).digest()
