"""A folder of pictures: labeled/<class>/…, unlabeled/…, val/<class>/…, test/<class>/….

Within a class, and under unlabeled, pictures may lie at any depth, and folders may be links. Hidden files and files of
other types are ignored.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from metapl.data.reading import files
from metapl.data.reading.decode import DataError
from metapl.data.reading.files import Folders
from metapl.data.reading.find_pictures import is_picture, walk
from metapl.data.sources.source import Files, Part, PictureConfig, Source, unlabeled_labels


@dataclass(frozen=True)
class Folder(PictureConfig):
    """Pictures in folders, one folder for each class."""

    name: ClassVar[str] = "folder"

    path: str = ""
    """The folder; without it, the data folder itself."""
    labeled: str = "labeled"
    """Where the labelled pictures are, below it."""
    unlabeled: str = "unlabeled"
    """Where the unlabelled pictures are; may be missing."""
    val: str = "val"
    """Where the pictures are that choose between models; may be missing."""
    test: str = "test"
    """Where the pictures are that are asked about at the end; may be missing."""
    real_labels: str = ""
    """ImageNet-ReaL's labels (real.json) for a test part of ImageNet's validation pictures; none: not reported."""


def read(config: Folder, folders: Folders) -> Source:
    """List the files; none is opened before it is asked for."""
    root = files.locate(config.name, config.path, folders) if config.path else _data_folder(config, folders)
    if not (root / config.labeled).is_dir():
        raise DataError(f"{root} has no folder {config.labeled} with a folder of pictures for each class")
    class_names = tuple(_subfolders(root / config.labeled))
    _check_links(root / config.labeled, class_names)
    if not class_names:
        raise DataError(f"{root / config.labeled} has no folder for any class")
    parts = {"train": _classes(root, root / config.labeled, class_names)}
    for part, place in (("val", config.val), ("test", config.test)):
        if (root / place).is_dir():
            parts[part] = _classes(root, root / place, class_names)
    if (root / config.unlabeled).is_dir():
        paths = _pictures(root / config.unlabeled)
        parts["unlabeled"] = Part(Files(tuple(paths), root), unlabeled_labels(len(paths)))
    return Source(parts, class_names)


def _data_folder(config: Folder, folders: Folders) -> Path:
    """The first that has labelled pictures: who evaluates a run need not say again where it found its own."""
    return next((folder for folder in folders if (folder / config.labeled).is_dir()), folders[0])


def _classes(root: Path, place: Path, class_names: Sequence[str]) -> Part:
    """The pictures of each class; every class must be one of the labelled ones, and have a picture."""
    found: Mapping[str, list[Path]] = {name: _pictures(place / name) for name in _subfolders(place)}
    if unknown := sorted(set(found) - set(class_names)):
        raise DataError(f"{place} has classes that the labelled pictures do not have: {', '.join(unknown)}")
    if empty := sorted(name for name, paths in found.items() if not paths):
        raise DataError(f"{place} has no picture in: {', '.join(empty)}")
    if stray := [p.name for p in sorted(place.iterdir()) if p.is_file() and is_picture(p.name)]:
        raise DataError(f"{place / stray[0]} lies beside the class folders, not in one")
    labels = [np.full(len(paths), class_names.index(name), np.int32) for name, paths in found.items()]
    paths = tuple(path for paths in found.values() for path in paths)
    return Part(Files(paths, root), np.concatenate(labels) if labels else unlabeled_labels(0))


def _subfolders(place: Path) -> list[str]:
    return sorted(entry.name for entry in place.iterdir() if entry.is_dir() and not entry.name.startswith("."))


def _check_links(place: Path, names: Sequence[str]) -> None:
    """A class folder may be a link, but not to a folder that it is in: all pictures would be of that class."""
    for name in names:
        if place.resolve().is_relative_to((place / name).resolve()):
            raise DataError(f"{place / name} is a link to a folder that it lies in, so it is no class; remove it")


def _pictures(place: Path) -> list[Path]:
    """All of them: a folder that cannot be looked into may hold most of the pictures."""
    found = list(walk(place))
    for one in found:
        if one.problem:
            raise DataError(f"{one.path}: {one.problem}; mend or remove it, so that no pictures are left out unseen")
    return [one.path for one in found]
