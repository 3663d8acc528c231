"""What the sources `webdataset` and `parquet` share: which files are which part, and numbers for labels."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.data.reading import files, packed
from metapl.data.reading.decode import DataError
from metapl.data.reading.files import Folders
from metapl.data.reading.packed import Packed
from metapl.data.sources.source import Part, PictureConfig, Source, unlabeled_labels

PARTS = ("train", "val", "test", "unlabeled")
_WORDS = {  # words in the names of files or folders, and the part that they stand for
    **dict.fromkeys(("train", "training", "labeled", "labelled"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "val"),
    **dict.fromkeys(("test", "testing"), "test"),
    **dict.fromkeys(("unlabeled", "unlabelled", "unsupervised"), "unlabeled"),
}
_NUMBERED = re.compile(r"(.*)-(\d+)-of-(\d+)(?:-\w+)?")
_MOST_CLASSES = 100_000

Label = int | str | None  # as it is stored; None: unlabelled


@dataclass(frozen=True)
class ShardConfig(PictureConfig):
    """Pictures in large files, each with many of them."""

    suffix: ClassVar[str]  # of the files
    path: str = ""
    """The folder with the files, or one file. Default: the data folder."""
    train: str = "auto"
    """File names of the training part; * matches anything. auto: those with train in their names, or in no part."""
    val: str = "auto"
    """File names of the part for choosing between models. auto: those with val or validation in their names."""
    test: str = "auto"
    """File names of the part for the final evaluation. auto: those with test in their names. Empty: no such part."""
    unlabeled: str = "auto"
    """File names of the unlabelled part. auto: those with unlabeled in their names. Empty: no such part."""


class RawPart(NamedTuple):
    """Pictures of one part with their labels as they are stored."""

    images: Packed
    labels: Sequence[Label]


def find_shards(config: ShardConfig, folders: Folders) -> dict[str, tuple[Path, ...]]:
    """The files of each part, in the order of their names; an error if some are missing or belong nowhere."""
    root = files.locate(config.name, config.path, folders) if config.path else _first_with_shards(config, folders)
    found = [root] if root.is_file() else below(root, config.suffix)
    if not found:
        raise DataError(f"{config.name}: {root} has no {config.suffix} file")
    parts = {part: _matching(config, part, root, found) for part in PARTS}
    if config.train == "auto":
        taken = {path for shards in parts.values() for path in shards}
        rest = tuple(path for path in found if path not in taken and _part_of(path, root) is None)
        if rest and parts["train"]:
            raise DataError(
                f"{config.name}: the name of {rest[0]} does not say whether it is train, val, test or unlabeled; set "
                "train, val, test and unlabeled to the names of their files"
            )
        parts["train"] = parts["train"] or rest
    if not parts["train"]:
        raise DataError(f"{config.name}: {root} has no {config.suffix} file for train = {config.train!r}")
    for shards in parts.values():
        check_complete(shards)
    return {part: shards for part, shards in parts.items() if shards}


def below(root: Path, suffix: str) -> list[Path]:
    """All files with this suffix below a folder that are not hidden, in order."""
    found = (path for path in root.rglob(f"*{suffix}") if path.is_file())
    return sorted(path for path in found if not any(name.startswith(".") for name in path.relative_to(root).parts))


def check_complete(shards: Iterable[Path]) -> None:
    """Refuse files whose names (…-00003-of-00010) say that others are missing."""
    groups: dict[tuple[Path, str, int], set[int]] = {}
    for path in shards:
        if match := _NUMBERED.fullmatch(path.stem):
            groups.setdefault((path.parent, match[1], int(match[3])), set()).add(int(match[2]))
    for (folder, name, total), numbers in groups.items():
        if len(numbers) < total:
            first = next(number for number in range(total) if number not in numbers)
            raise DataError(
                f"{folder} lacks {total - len(numbers)} of {total} files {name}-*-of-* (the first: number {first})"
            )


def to_source(raw: Mapping[str, RawPart], class_names: tuple[str, ...], name: str) -> Source:
    """Give every label a number: its place among the class names or, without them, among the labels of train."""
    names = class_names or _names(raw["train"], name)
    numbers: dict[Label, int] = {text: i for i, text in enumerate(names)}
    if class_names:
        numbers |= {i: i for i in range(len(names))}
    else:
        numbers |= {int(text): i for i, text in enumerate(names) if _is_number(raw["train"])}
    parts = {}
    for part, (images, labels) in raw.items():
        if part == "unlabeled":
            parts[part] = Part(images, unlabeled_labels(len(images)))
            continue
        rows = [-1 if label is None or label == -1 else numbers.get(label, -2) for label in labels]
        array = np.array(rows, np.int32).reshape(-1)
        _check_part(part, images, array, labels, name)
        parts[part] = Part(images, array)
    return Source(parts, names)


def _first_with_shards(config: ShardConfig, folders: Folders) -> Path:
    for folder in folders:
        if folder.is_dir() and below(folder, config.suffix):
            return folder
    places = " or ".join(map(str, folders))
    raise DataError(f"{config.name}: no {config.suffix} file in {places}; set path to the folder with the files")


def _matching(config: ShardConfig, part: str, root: Path, found: list[Path]) -> tuple[Path, ...]:
    pattern: str = getattr(config, part)
    if pattern == "auto":
        if root.is_file():  # one file that the user names is the training part, whatever its name
            return tuple(found) if part == "train" else ()
        return tuple(path for path in found if _part_of(path, root) == part)
    return tuple(path for path in found if pattern and (path.match(pattern) or path.name == pattern))


def _part_of(path: Path, root: Path) -> str | None:
    """The part that a file's name stands for or, if it says none, the name of the nearest folder that does."""
    for text in (path.stem, *(parent.name for parent in path.relative_to(root).parents)):
        for word in re.split("[^a-z]+", text.lower()):
            if word in _WORDS:
                return _WORDS[word]
    return None


def _is_number(part: RawPart) -> bool:
    return all(isinstance(label, int) for label in part.labels if label is not None)


def _names(train: RawPart, name: str) -> tuple[str, ...]:
    """The labels of train, in order: numbers by their size, texts by the alphabet."""
    known = {label for label in train.labels if label is not None and label != -1}
    if not known:
        raise DataError(f"{name}: no picture of train has a label")
    if len(known) > _MOST_CLASSES:
        raise DataError(f"{name}: train has {len(known):,} different labels, too many for classes")
    if _is_number(train):
        return tuple(str(number) for number in sorted(label for label in known if isinstance(label, int)))
    if any(isinstance(label, int) for label in known):
        raise DataError(f"{name}: some labels of train are numbers and some are text")
    return tuple(sorted(str(label) for label in known))


def _check_part(part: str, images: Packed, rows: NDArray[np.int32], labels: Sequence[Label], name: str) -> None:
    """Refuse labels that are no class, and unlabelled pictures where the accuracy is measured."""
    if unknown := np.flatnonzero(rows == -2).tolist():
        first = unknown[0]
        raise DataError(f"{images.name(first)}: the label {labels[first]!r} of {part} is not a class of train")
    if part != "train" and (missing := np.flatnonzero(rows < 0).tolist()):
        raise DataError(
            f"{name}: {len(missing):,} of {len(rows):,} pictures of {part} have no label (the first: "
            f"{images.name(missing[0])}); leave the part out with {part} = '', or use its files as unlabeled"
        )


def joined(shards: Sequence[tuple[Packed, Sequence[Label]]]) -> RawPart:
    """The shards of one part, one after the other."""
    labels = [label for _, of_shard in shards for label in of_shard]
    return RawPart(packed.join([images for images, _ in shards]), labels)
