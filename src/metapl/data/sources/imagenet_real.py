"""The reassessed labels of ImageNet's 50,000 validation pictures (ImageNet-ReaL, `real.json`).

The file is a list in the order of the pictures' official numbers (ILSVRC2012_val_00000001 first); each entry lists
every label that is right for that picture. An empty list means that no label is: those pictures are not counted.
"""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from metapl.data.reading import files
from metapl.data.reading.decode import DataError
from metapl.data.reading.files import Folders

_CLASSES, _PICTURES = 1000, 50_000
_ENOUGH = 20  # pictures, to tell whether classes are numbered otherwise
_ORIGIN = "the repository reassessed-imagenet of Google Research"
_OFFICIAL = re.compile(r"ILSVRC2012_val_(\d{8})(\D|$)")

RealLabels = tuple[tuple[int, ...], ...]  # one entry for each picture


def read(folders: Folders, file: str, pictures: int = _PICTURES) -> RealLabels:
    """Find and check the file, `real.json` as it is published."""
    for place in (Path(), *folders):
        if (place / file).is_file():
            return _parse(place / file, pictures)
    raise files.missing("ImageNet-ReaL", [file], _ORIGIN, folders)


def _parse(path: Path, pictures: int) -> RealLabels:
    with files.open_file(path) as file:
        try:
            content = json.load(file)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path} is not JSON: {error}") from None
    if not isinstance(content, list) or len(content) != pictures:
        raise DataError(f"{path} must be a list with one entry for each of {pictures:,} pictures")
    for i, entry in enumerate(content):
        if not isinstance(entry, list) or any(type(c) is not int or not 0 <= c < _CLASSES for c in entry):
            raise DataError(f"{path}: entry {i} is not a list of labels from 0 to {_CLASSES - 1}")
    return tuple(map(tuple, content))


def in_order_of(real: RealLabels, names: Iterable[str]) -> RealLabels:
    """The labels in the order of these file names: TFRecord shards hold the pictures in an order of their own."""
    return tuple(real[_number(name, len(real))] for name in names)


def as_mask(real: Sequence[Sequence[int]], classes: int = _CLASSES) -> NDArray[np.bool_]:
    """Which labels are right, [N, classes]; a row without any is a picture that is not counted."""
    if classes != _CLASSES:
        raise DataError(f"real_labels are about ImageNet's {_CLASSES:,} classes, the data have {classes:,}")
    mask = np.zeros((len(real), classes), np.bool_)
    for row, labels in zip(mask, real, strict=True):
        row[list(labels)] = True
    return mask


def refuse_other_numbers(mask: NDArray[np.bool_], labels: NDArray[np.int32]) -> None:
    """Refuse data that number ImageNet's classes otherwise: their answers would be compared with other classes.

    ImageNet's own label is among the reassessed ones for most pictures, that of another class for hardly any.
    """
    same = mask[np.arange(len(mask)), labels][mask.any(-1)]
    if len(same) >= _ENOUGH and same.mean() < 0.5:
        raise DataError(
            f"real_labels: they have the data's own label for {same.mean():.0%} of the test pictures, so the classes "
            "here are in another order than ImageNet's, that of the WordNet ids; name folders by these (n01440764, …)"
        )


def _number(name: str, count: int) -> int:
    match = _OFFICIAL.search(name)
    if match is None or not 1 <= int(match[1]) <= count:
        raise DataError(f"{name} is not the name of an ILSVRC-2012 validation picture (ILSVRC2012_val_00000001.JPEG)")
    return int(match[1]) - 1
