"""A folder of pictures: labeled/<class>/…, unlabeled/…, val/<class>/…, test/<class>/….

Inside a class, and inside unlabeled, pictures may be at any depth, and folders may be links. Hidden files and files of
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

MOST_NAMES = 5  # of folders in an error


@dataclass(frozen=True)
class Folder(PictureConfig):
    """Pictures in folders, one folder for each class."""

    name: ClassVar[str] = "folder"

    path: str = ""
    """The folder. Default: the data folder itself."""
    labeled: str = "labeled"
    """The folder of labelled pictures, inside path."""
    unlabeled: str = "unlabeled"
    """The folder of unlabelled pictures, inside path; may be missing."""
    val: str = "val"
    """The folder of pictures for choosing between models, inside path; may be missing."""
    test: str = "test"
    """The folder of pictures for the final evaluation, inside path; may be missing."""
    real_labels: str = ""
    """File of ImageNet-ReaL's labels (real.json), if test has ImageNet's validation pictures. Empty: not used."""


def read(config: Folder, folders: Folders) -> Source:
    """List the files; files are opened only when they are needed."""
    root = files.locate(config.name, config.path, folders) if config.path else _data_folder(config, folders)
    if not (root / config.labeled).is_dir():
        raise DataError(
            f"{root} has no folder {config.labeled} with a folder of pictures for each class{_hint(root, config)}"
        )
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


def _hint(root: Path, config: Folder) -> str:
    """What to do if the classes' folders are not where they are expected; empty if there are none."""
    names = [name for name in _subfolders(root) if name not in (config.unlabeled, config.val, config.test)]
    shown = ", ".join(names[:MOST_NAMES]) + (", …" if len(names) > MOST_NAMES else "")
    return f"; if {shown} are the classes, move them into {root / config.labeled}" if names else ""


def _data_folder(config: Folder, folders: Folders) -> Path:
    """The first folder that has labelled pictures, so that evaluating a run needs no path."""
    return next((folder for folder in folders if (folder / config.labeled).is_dir()), folders[0])


def _classes(root: Path, place: Path, class_names: Sequence[str]) -> Part:
    """The pictures of each class. Every class must be one of the labelled ones, and have a picture."""
    classes: Mapping[str, list[Path]] = {name: _pictures(place / name) for name in _subfolders(place)}
    if unknown := sorted(set(classes) - set(class_names)):
        raise DataError(f"{place} has classes that the labelled pictures do not have: {', '.join(unknown)}")
    if empty := sorted(name for name, paths in classes.items() if not paths):
        raise DataError(f"{place} has no picture in: {', '.join(empty)}")
    if stray := [p.name for p in sorted(place.iterdir()) if p.is_file() and is_picture(p.name)]:
        raise DataError(f"{place / stray[0]} is beside the class folders; move it into one")
    labels = [np.full(len(paths), class_names.index(name), np.int32) for name, paths in classes.items()]
    paths = tuple(path for paths in classes.values() for path in paths)
    return Part(Files(paths, root), np.concatenate(labels) if labels else unlabeled_labels(0))


def _subfolders(place: Path) -> list[str]:
    return sorted(entry.name for entry in place.iterdir() if entry.is_dir() and not entry.name.startswith("."))


def _check_links(place: Path, names: Sequence[str]) -> None:
    """Refuse a class folder that is a link to a parent folder: all pictures would be of that class."""
    for name in names:
        if place.resolve().is_relative_to((place / name).resolve()):
            raise DataError(f"{place / name} is a link to a folder that contains it, so it is not a class; remove it")


def _pictures(place: Path) -> list[Path]:
    """All pictures below a folder; a folder that cannot be read is an error, since it may have most of the pictures."""
    pictures = list(walk(place))
    for picture in pictures:
        if picture.problem:
            raise DataError(f"{picture.path}: {picture.problem}; fix or remove it, so that no picture is missed")
    return [picture.path for picture in pictures]
