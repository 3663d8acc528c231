"""Pictures in TFRecord files; the defaults are ImageNet in the 1,024 shards of Inception's script (Appendix C.1)."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from metapl.data.reading import files
from metapl.data.reading.decode import DataError
from metapl.data.reading.files import Folders
from metapl.data.reading.records import Records, Value, scan
from metapl.data.sources.shards import check_complete
from metapl.data.sources.source import Part, PictureConfig, Source

_ORIGIN = "the Inception scripts of TensorFlow's models repository, run on the ILSVRC-2012 files"


@dataclass(frozen=True)
class TFRecord(PictureConfig):
    """Encoded pictures in TFRecord files."""

    name: ClassVar[str] = "tfrecord"

    path: str = ""
    """The folder with the files. Default: `imagenet` in the data folder, or the data folder itself."""
    train: str = "train-*-of-*"
    """File names of the training part; * matches anything."""
    val: str = ""
    """File names of the part for choosing between models; may be empty."""
    test: str = "validation-*-of-*"
    """File names of the part for the final evaluation; may be empty."""
    unlabeled: str = ""
    """File names of the unlabelled part; may be empty."""
    image_field: str = "image/encoded"
    """The field with the encoded picture."""
    label_field: str = "image/class/label"
    """The field with the label; a record without it is unlabelled."""
    text_field: str = "image/class/text"
    """The field with the class's name; may be empty."""
    first_label: int = 1
    """The number of the first class in the files."""
    name_field: str = "image/filename"
    """The field with the picture's file name, which real_labels needs."""
    real_labels: str = ""
    """File of ImageNet-ReaL's labels (real.json), if test has ImageNet's validation pictures. Empty: not used."""


def read(config: TFRecord, folders: Folders) -> Source:
    """Find every record and its label; pictures are decoded only when they are needed."""
    root = files.locate(config.name, config.path, folders) if config.path else files.find(folders, "imagenet")
    names: dict[int, str] = {}
    parts = {}
    for part in ("train", "val", "test", "unlabeled"):
        if pattern := getattr(config, part):
            shards = _shards(config, pattern, [root] if root else folders)
            parts[part] = _part(config, shards, names, part == "unlabeled")
    classes = max(int(part.labels.max(initial=-1)) for part in parts.values()) + 1
    if classes == 0:
        raise DataError(f"{config.name}: no record has a label in {config.label_field!r}; set label_field to its name")
    return Source(parts, tuple(names.get(i) or str(i) for i in range(classes)))


def _shards(config: TFRecord, pattern: str, folders: Folders) -> tuple[Path, ...]:
    """The files of one part, in the order of their names; an error if their names say that some are missing."""
    for folder in folders:
        if shards := sorted(path for path in folder.glob(pattern) if path.is_file()):
            break
    else:
        raise files.missing(config.name, [pattern], _ORIGIN, folders)
    check_complete(shards)
    return tuple(shards)


def _part(config: TFRecord, shards: tuple[Path, ...], names: dict[int, str], unlabeled: bool) -> Part:
    numbers, offsets, labels = [], [], []
    wanted = {config.label_field, config.text_field}
    for number, path in enumerate(shards):
        for offset, fields in scan(path, wanted):
            label = -1 if unlabeled else _label(config, fields, f"{path}@{offset}")
            text = fields.get(config.text_field)
            if isinstance(text, memoryview) and label >= 0 and label not in names:
                names[label] = bytes(text).decode("utf-8", "replace")
            numbers.append(number)
            offsets.append(offset)
            labels.append(label)
    records = Records(shards, np.array(numbers, np.int32), np.array(offsets, np.int64), config.image_field)
    return Part(records, np.array(labels, np.int32))


def _label(config: TFRecord, fields: dict[str, Value], name: str) -> int:
    label = fields.get(config.label_field)
    if label is None:
        return -1
    if not isinstance(label, int) or not 0 <= label - config.first_label < 2**31:
        shown = label if isinstance(label, int) else "text"
        raise DataError(f"{name}: {config.label_field} must be a number from {config.first_label} up, got {shown}")
    return label - config.first_label
