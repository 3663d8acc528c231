"""Pictures in Parquet files, as Hugging Face publishes them.

Parquet compresses rows in groups of a hundred or more, so reading one picture would mean reading a group. Batches take
pictures in any order. So the encoded pictures of each file are copied once, one after another, to the user's cache.
"""

import hashlib
import io
import json
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from metapl.data.reading import parquet_file
from metapl.data.reading.decode import DataError
from metapl.data.reading.files import Folders
from metapl.data.reading.packed import Packed
from metapl.data.sources.shards import Label, ShardConfig, find_shards, joined, to_source
from metapl.data.sources.source import Source
from metapl.system import runtime
from metapl.system.disk import explaining_disk_errors, write_atomically

_FORMAT = 1
_ABANDONED_S = 86_400  # an unfinished copy of this age belongs to a process that was killed


@dataclass(frozen=True)
class Parquet(ShardConfig):
    """Encoded pictures in Parquet files, as on the Hugging Face Hub."""

    name: ClassVar[str] = "parquet"
    suffix: ClassVar[str] = ".parquet"

    image: str = "auto"
    """The column with the encoded pictures: bytes, or a struct with a field bytes. auto: the only one, or `image`."""
    label: str = "auto"
    """The column with the labels. auto: `label`, or the only one with names of classes. Empty: all are unlabelled."""


def read(config: Parquet, folders: Folders) -> Source:
    """Read the labels, and copy the pictures' bytes to the cache unless they are there already."""
    parquet_file.require()
    shards = find_shards(config, folders)
    raw = {part: joined([_read(config, path) for path in paths]) for part, paths in shards.items()}
    names = {parquet_file.columns(path, config.image, config.label).class_names for path in shards["train"]}
    if len(names) > 1:
        raise DataError(f"{config.name}: the files of train do not name the same classes; give files of one data set")
    return to_source(raw, next(iter(names)), config.name)


def index(path: Path, image: str = "auto") -> Packed:
    """All pictures of one file; a picture's name is the number of its row."""
    column = parquet_file.columns(path, image, "").image
    sizes = _stored_sizes(path, column)
    return Packed(
        (path,),
        (_place(path, column),),
        np.zeros(len(sizes), np.int32),
        np.cumsum(sizes) - sizes,
        sizes,
        np.arange(len(sizes)).astype(np.bytes_),
    )


def _read(config: Parquet, path: Path) -> tuple[Packed, list[Label]]:
    label = parquet_file.columns(path, config.image, config.label).label
    images = index(path, config.image)
    return images, parquet_file.labels(path, label) if label else [None] * len(images)


def _place(path: Path, column: str) -> Path:
    """The copy of a file's pictures; another file, or a changed one, has another copy."""
    status = path.stat()
    facts = [_FORMAT, str(path.resolve()), status.st_size, status.st_mtime_ns, column]
    key = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:24]
    return runtime.cache_folder() / "parquet" / f"{key}.pictures"


def _stored_sizes(path: Path, column: str) -> NDArray[np.int64]:
    """The bytes of each picture in the copy, which is made if it is missing or incomplete."""
    place = _place(path, column)
    with suppress(OSError, ValueError, EOFError):
        sizes: NDArray[np.int64] = np.load(place.with_suffix(".npy"), allow_pickle=False)
        if sizes.dtype == np.int64 and sizes.ndim == 1 and place.stat().st_size == int(sizes.sum()):
            return sizes
    with explaining_disk_errors(place.parent, "give the same command again"):
        place.parent.mkdir(parents=True, exist_ok=True)
        sizes = _copy(path, column, place)
        write_atomically(place.with_suffix(".npy"), _npy(sizes))
    return sizes


def _copy(path: Path, column: str, place: Path) -> NDArray[np.int64]:
    """Copy the pictures completely or not at all; several processes may do so at once and write the same bytes."""
    for left in place.parent.glob("*.partial"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > _ABANDONED_S:
                left.unlink()
    partial = place.with_suffix(f".{os.getpid()}.partial")
    sizes = []
    try:
        with partial.open("wb") as file:
            for picture in parquet_file.pictures(path, column):
                sizes.append(len(picture))
                file.write(picture)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(place)
    finally:
        partial.unlink(missing_ok=True)
    return np.array(sizes, np.int64)


def _npy(sizes: NDArray[np.int64]) -> bytes:
    file = io.BytesIO()
    np.save(file, sizes, allow_pickle=False)
    return file.getvalue()
