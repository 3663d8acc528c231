"""The reassessed labels of ImageNet's 50,000 validation pictures (ImageNet-ReaL, `real.json`).

The file is a list in the order of the pictures' official numbers (ILSVRC2012_val_00000001 first); each entry lists
every label that is right for that picture. An empty list means that no label is right: such pictures are not counted.
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
_ENOUGH = 20  # pictures, to notice that the classes are in another order
_ORIGIN = "the repository reassessed-imagenet of Google Research"
_OFFICIAL = re.compile(r"ILSVRC2012_val_(\d{8})(\D|$)")

RealLabels = tuple[tuple[int, ...], ...]  # one entry for each picture


def read(folders: Folders, file: str, pictures: int = _PICTURES) -> RealLabels:
    """Find, read and check the file, `real.json` as it is published."""
    if path := files.first_existing(file, folders):
        return _parse(path, pictures)
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
    """The labels in the order of these file names: TFRecord shards have the pictures in another order."""
    return tuple(real[_number(name, len(real))] for name in names)


def as_mask(real: Sequence[Sequence[int]], classes: int = _CLASSES) -> NDArray[np.bool_]:
    """Which labels are right, [N, classes]; a picture without any is not counted."""
    if classes != _CLASSES:
        raise DataError(f"real_labels are for ImageNet's {_CLASSES:,} classes, but the data have {classes:,}")
    mask = np.zeros((len(real), classes), np.bool_)
    for row, labels in zip(mask, real, strict=True):
        row[list(labels)] = True
    return mask


def refuse_other_numbers(mask: NDArray[np.bool_], labels: NDArray[np.int32]) -> None:
    """Refuse data whose classes are in another order: predictions would be compared with wrong classes.

    For most pictures, ImageNet's own label is among the reassessed ones; the label of another class hardly ever is.
    """
    agrees = mask[np.arange(len(mask)), labels][mask.any(-1)]
    if len(agrees) >= _ENOUGH and agrees.mean() < 0.5:
        raise DataError(
            f"real_labels agree with the data's own labels for only {agrees.mean():.0%} of the test pictures: the "
            "classes are not in ImageNet's order, that of the WordNet ids; name the folders by these (n01440764, …)"
        )


def _number(name: str, count: int) -> int:
    match = _OFFICIAL.search(name)
    if match is None or not 1 <= int(match[1]) <= count:
        raise DataError(f"{name} is not the name of an ILSVRC-2012 validation picture (ILSVRC2012_val_00000001.JPEG)")
    return int(match[1]) - 1
