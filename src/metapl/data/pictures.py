"""The sources of pictures. A new one is one file in sources/ and one row in this table."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metapl.data.reading.files import Folders
from metapl.data.reading.records import Records
from metapl.data.sources import (
    cifar,
    csv_list,
    digits,
    folder,
    idx,
    imagenet_real,
    npz,
    parquet,
    svhn,
    tfrecord,
    webdataset,
)
from metapl.data.sources.source import Files, Images, PictureConfig, Source
from metapl.data.sources.spec import parse_for
from metapl.data.splits.assemble import SplitSource, assemble
from metapl.data.splits.split import make_split

# settings -> read(settings, folders to search)
READERS: dict[type[PictureConfig], Callable[[Any, Folders], Source]] = {
    digits.Digits: digits.read,
    cifar.Cifar10: cifar.read,
    cifar.Cifar100: cifar.read,
    svhn.Svhn: svhn.read,
    idx.Mnist: idx.read,
    idx.FashionMnist: idx.read,
    folder.Folder: folder.read,
    csv_list.CsvList: csv_list.read,
    npz.Npz: npz.read,
    tfrecord.TFRecord: tfrecord.read,
    webdataset.WebDataset: webdataset.read,
    parquet.Parquet: parquet.read,
}


def read(config: PictureConfig, folders: Folders) -> Source:
    """Read the source that the settings describe."""
    return READERS[type(config)](config, folders)


def load(config: PictureConfig, folders: Folders) -> SplitSource:
    """Read the source and split it as its `split` setting says."""
    spec = parse_for(config.split, config.name)  # before reading anything, so that a wrong name fails at once
    source = read(config, folders)
    loaded = assemble(source, make_split(spec, source))
    return loaded._replace(test_real=_real_labels(config, loaded, folders))


def _real_labels(config: PictureConfig, loaded: SplitSource, folders: Folders) -> NDArray[np.bool_] | None:
    """Which labels are right for each test picture [N, classes]; None unless the settings name a file of them."""
    if not isinstance(config, (folder.Folder, tfrecord.TFRecord)) or not config.real_labels:
        return None
    real = imagenet_real.read(folders, config.real_labels)
    names = _file_names(loaded.images("test"), config.name_field if isinstance(config, tfrecord.TFRecord) else "")
    mask = imagenet_real.as_mask(imagenet_real.in_order_of(real, names), len(loaded.class_names))
    imagenet_real.refuse_other_numbers(mask, loaded.labels("test"))
    return mask


def _file_names(images: Images, field: str) -> list[str]:
    """The names of the pictures' files; for records, the names that the files had before."""
    match images:
        case Files(paths=paths):
            return [path.name for path in paths]
        case Records():
            return [images.text(i, field) or images.name(i) for i in range(len(images))]
    raise TypeError(f"pictures of type {type(images).__name__} have no file names")
