"""Rows that must not be selected: look-alikes of val and test pictures, and pictures that cannot be read."""

import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.data.audit import hashing, near
from metapl.data.audit.duplicates import EVALUATION
from metapl.data.audit.hashing import Hashes
from metapl.data.audit.survey import survey
from metapl.data.sources.source import BadImage, Images, Source
from metapl.schema import ConfigError

_DAMAGE = (OSError, ValueError, KeyError, EOFError, NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error)


class Hashed(NamedTuple):
    """Perceptual hashes of some pictures, and which of them could be read."""

    hashes: Hashes
    readable: NDArray[np.bool_]


HashLookup = Callable[[NDArray[np.int64]], Hashed]  # rows -> their hashes


class LeaveOut:
    """Decides which rows may be kept, and counts the others by reason."""

    def __init__(self, hashes_of: HashLookup, forbidden: Hashes, max_distance: int) -> None:
        self._hashes_of, self._forbidden, self._max_distance = hashes_of, np.unique(forbidden), max_distance
        self.look_alikes = self.unreadable = 0

    def __call__(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each row may be kept."""
        hashes, readable = self._hashes_of(rows)
        alike = np.zeros(len(rows), bool)
        alike[near.match(hashes, self._forbidden, self._max_distance)[0]] = True
        self.unreadable += int(np.sum(~readable))
        self.look_alikes += int(np.sum(alike & readable))
        return readable & ~alike


def read(path: Path) -> dict[str, Hashed]:
    """Read the hashes.npz that `metapl data check` writes: the hashes of each part."""
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            parts = [name.removesuffix(".hashes") for name in file.files if name.endswith(".hashes")]
            return {part: Hashed(file[f"{part}.hashes"], file[f"{part}.readable"]) for part in parts}
    except _DAMAGE as error:
        raise ConfigError(f"{path}: not a hashes.npz of metapl data check: {error}") from None


def evaluation_hashes(parts: Mapping[str, Hashed], origin: str) -> Hashes:
    """All hashes of val and test."""
    hashes = [parts[name].hashes[parts[name].readable] for name in EVALUATION if name in parts]
    if not hashes:
        raise ConfigError(f"{origin} has neither val nor test; its parts are {', '.join(parts) or 'none'}")
    return np.concatenate(hashes)


def evaluation_of(source: Source) -> dict[str, Hashed]:
    """Hash a source's val and test pictures."""
    surveys = {name: survey(part.images) for name, part in source.parts.items() if name in EVALUATION}
    return {name: Hashed(seen.hashes, seen.readable) for name, seen in surveys.items()}


def from_hashes(hashed: Hashed) -> HashLookup:
    """Take rows from hashes that are computed already."""
    return lambda rows: Hashed(hashed.hashes[rows], hashed.readable[rows])


def from_images(images: Images) -> HashLookup:
    """Read and hash the pictures of the rows: only candidates are read."""

    def hashes_of(rows: NDArray[np.int64]) -> Hashed:
        hashes, readable = np.zeros(len(rows), np.uint64), np.ones(len(rows), bool)
        for i, row in enumerate(rows.tolist()):
            try:
                hashes[i] = hashing.perceptual(images[row])
            except BadImage:
                readable[i] = False
        return Hashed(hashes, readable)

    return hashes_of
