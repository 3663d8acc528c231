"""A CSV file that lists pictures: columns `path`, `label` (empty: unlabelled) and, optionally, `split`.

A path may lead into a shard: shard.tar/picture.jpg, or train.parquet/17 for row 17. Then all paths must.
"""

import csv
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np

from metapl.data.reading import files
from metapl.data.reading.decode import DataError
from metapl.data.reading.files import Folders
from metapl.data.sources.dataset import ROLES
from metapl.data.sources.shard_members import pictures_at, shard_of
from metapl.data.sources.source import Files, Images, Part, PictureConfig, Source

MOST_LETTERS = 80  # of a header line in an error
_PARTS = ("train", "val", "test", "unlabeled")


@dataclass(frozen=True)
class CsvList(PictureConfig):
    """Pictures listed in a CSV file, with paths relative to the file's folder."""

    name: ClassVar[str] = "csv"

    file: str = "pictures.csv"
    """The CSV file, with a header line: path,label or path,label,split (labeled or train, val, test, unlabeled)."""
    outside: bool = False
    """Allow paths that leave the CSV file's folder."""


class _Row(NamedTuple):
    path: Path
    shard: Path | None  # the file that the path leads into
    label: str
    part: str


def read(config: CsvList, folders: Folders) -> Source:
    """Read the list and check that every file exists; files are opened only when they are needed."""
    file = files.locate(config.name, config.file, folders)
    rows = list(_rows(file, config.outside))
    class_names = tuple(sorted({row.label for row in rows if row.part == "train"}))
    if not class_names:
        raise DataError(f"{file} has no labelled picture to train on")
    if unknown := sorted({row.label for row in rows if row.part in ("val", "test")} - set(class_names)):
        raise DataError(f"{file} has classes in val or test that no labelled picture has: {', '.join(unknown)}")
    numbers = {name: i for i, name in enumerate(class_names)}
    parts = {}
    for part in _PARTS:
        chosen = [row for row in rows if row.part == part]
        if chosen:
            labels = np.array([numbers[row.label] if part != "unlabeled" else -1 for row in chosen], np.int32)
            parts[part] = Part(_images(file, chosen), labels)
    if len({type(part.images) for part in parts.values()}) > 1:
        raise DataError(f"{file} lists both picture files and pictures inside shards; list only one kind")
    return Source(parts, class_names)


def _images(file: Path, rows: list[_Row]) -> Images:
    paths, shards = tuple(row.path for row in rows), [row.shard for row in rows if row.shard]
    if not shards:
        return Files(paths, file.parent)
    if len(shards) < len(rows):
        raise DataError(f"{file} lists both picture files and pictures inside shards; list only one kind")
    try:
        return pictures_at(paths, shards)
    except DataError as error:
        raise DataError(f"{file}: {error}") from None


def _rows(file: Path, outside: bool) -> Iterator[_Row]:
    folder = file.parent.resolve()
    try:
        with file.open(encoding="utf-8-sig", newline="") as opened:
            reader = csv.DictReader(opened)
            if not {"path", "label"} <= set(reader.fieldnames or ()):
                found = ",".join(reader.fieldnames or ())[:MOST_LETTERS]
                raise DataError(f"{file} must start with a header line that has path and label, got {found!r}")
            for entry in reader:
                where = f"{file}, line {reader.line_num}"
                path = _path(entry["path"], file.parent, folder, outside, where)
                yield _Row(path, _shard(path, entry["path"], where), *_label(entry, where))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{file} cannot be read as a CSV file: {error}") from None


def _label(entry: dict[str, str | None], where: str) -> tuple[str, str]:
    """The label and the part; the role `labeled` is the part `train`, and without a label a picture is unlabelled."""
    label = (entry["label"] or "").strip()
    split = (entry.get("split") or "").strip() or "labeled"
    part = "train" if split == "labeled" else split
    if part not in _PARTS:
        raise DataError(f"{where}: split takes one of {', '.join(ROLES)} (or train for labeled), got {split!r}")
    if not label and part in ("val", "test"):
        raise DataError(f"{where}: a picture of {part} needs a label")
    return label, "unlabeled" if not label else part


def _path(text: str | None, parent: Path, folder: Path, outside: bool, where: str) -> Path:
    """The picture's path. Links are resolved before the check: a link inside the folder may point anywhere."""
    if not text or "\0" in text:
        raise DataError(f"{where}: the path {'is empty' if not text else 'contains a NUL character'}")
    path = parent / text
    leaves = os.path.isabs(text) or ".." in Path(text).parts or not path.resolve().is_relative_to(folder)
    if leaves and not outside:
        raise DataError(f"{where}: {text} leaves the folder of the CSV file; set outside = true to allow that")
    return path


def _shard(path: Path, text: str | None, where: str) -> Path | None:
    """The shard that the path leads into; None if it is a file itself."""
    shard = None if path.is_file() else shard_of(path)
    if shard is None and not path.is_file():
        raise DataError(f"{where}: there is no file {text}")
    return shard
