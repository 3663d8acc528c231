"""Class probabilities of very many pictures, read from a file piece by piece.

Three kinds of files: .npy [N, C], .npz with one such array (or one called "probabilities"), and .csv with a header
`path,p0,p1,…`. None of them is ever in memory as a whole, and nothing in them is executed.
"""

import csv
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.data.reading import npy_header
from metapl.schema import ConfigError

VALUES_AT_ONCE = 1 << 22  # 16 MB as float32

Chunk = NDArray[np.float32]  # [R, C]


class Shape(NamedTuple):
    """Rows and classes of a file; a CSV file's rows are not counted (None)."""

    rows: int | None
    classes: int


def shape(path: Path) -> Shape:
    """Read rows and classes from the start of the file."""
    if path.suffix == ".csv":
        return Shape(None, len(_csv_header(path)) - 1)
    with _array_file(path) as file:
        return _header(file, path)[0]


def chunks(path: Path) -> Iterator[Chunk]:
    """Yield all rows in order; ConfigError if a row does not hold probabilities."""
    first = 0
    for chunk in _csv_chunks(path) if path.suffix == ".csv" else _array_chunks(path):
        wrong = ~((chunk >= 0) & (chunk <= 1.001)).all(
            axis=1
        )  # float16 may round to a little above 1; NaN is wrong, too
        if wrong.any():
            row = int(np.argmax(wrong))
            raise ConfigError(
                f"{path}: row {first + row} holds {chunk[row].min()} to {chunk[row].max()}; probabilities are 0 to 1"
            )
        yield chunk
        first += len(chunk)


def names(path: Path, names_file: Path | None) -> Iterator[str]:
    """Yield the rows' names: a CSV's first column, else the lines of the names file, else the rows' numbers."""
    if path.suffix == ".csv":
        with _readable(path), path.open(newline="", encoding="utf-8-sig") as file:
            yield from (row[0] for row in islice(csv.reader(file), 1, None))
    elif names_file is not None:
        with _readable(names_file), names_file.open(encoding="utf-8-sig") as file:
            yield from (line.rstrip("\n") for line in file)
    else:
        rows = shape(path).rows
        yield from map(str, range(rows or 0))


def _array_chunks(path: Path) -> Iterator[Chunk]:
    with _array_file(path) as file:
        (rows, classes), dtype = _header(file, path)
        at_once = max(1, VALUES_AT_ONCE // classes)
        for start in range(0, rows or 0, at_once):
            count = min(at_once, (rows or 0) - start) * classes
            data = file.read(count * dtype.itemsize)
            if len(data) < count * dtype.itemsize:
                raise ConfigError(f"{path}: the file ends before row {rows}; it is truncated")
            yield np.frombuffer(data, dtype).reshape(-1, classes).astype(np.float32)


def _csv_chunks(path: Path) -> Iterator[Chunk]:
    width = len(_csv_header(path))
    with _readable(path), path.open(newline="", encoding="utf-8-sig") as file:
        rows = islice(csv.reader(file), 1, None)
        first = 1
        while piece := list(islice(rows, max(1, VALUES_AT_ONCE // (8 * width)))):
            try:
                yield np.array([row[1:] for row in piece], dtype=np.float32).reshape(len(piece), width - 1)
            except ValueError:
                last = first + len(piece) - 1
                raise ConfigError(
                    f"{path}: one of the rows {first} to {last} does not have {width - 1} numbers"
                ) from None
            first += len(piece)


def _csv_header(path: Path) -> list[str]:
    with _readable(path), path.open(newline="", encoding="utf-8-sig") as file:
        header = next(csv.reader(file), [])
    if len(header) < 2 or header[0] != "path":
        raise ConfigError(f"{path}: the first line must be path,p0,p1,… with one column for each class")
    return header


@contextmanager
def _array_file(path: Path) -> Iterator[IO[bytes]]:
    """Open the array's bytes."""
    with _readable(path):
        if path.suffix == ".npy":
            with path.open("rb") as file:
                yield file
        elif path.suffix == ".npz":
            with zipfile.ZipFile(path) as archive, archive.open(_member(archive, path)) as file:
                yield file
        else:
            raise ConfigError(f"{path}: probabilities are read from .npy, .npz or .csv")


def _member(archive: zipfile.ZipFile, path: Path) -> str:
    members = archive.namelist()
    if not members:
        raise ConfigError(f"{path}: it has no array")
    chosen = "probabilities.npy" if "probabilities.npy" in members else members[0]
    if len(members) > 1 and chosen != "probabilities.npy":
        raise ConfigError(f"{path}: it has several arrays, and none is called probabilities: {', '.join(members)}")
    return chosen


def _header(file: IO[bytes], path: Path) -> tuple[Shape, np.dtype[np.generic]]:
    try:
        size, fortran, dtype = npy_header.read_header(file)
    except npy_header.DAMAGE as error:
        raise ConfigError(f"{path}: not a NumPy array: {error}") from None
    if len(size) != 2 or dtype.kind != "f" or fortran or not size[1]:
        order = " in Fortran order" if fortran else ""
        raise ConfigError(f"{path}: it must be floats [pictures, classes] in C order, got {dtype} {list(size)}{order}")
    return Shape(size[0], size[1]), dtype


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn errors of a missing or damaged file into a ConfigError that names it."""
    try:
        yield
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not UTF-8 text") from None
    except (OSError, zipfile.BadZipFile, zlib.error, csv.Error) as error:
        raise ConfigError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
