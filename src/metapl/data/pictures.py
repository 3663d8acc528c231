"""The sources of pictures. A new one is one file beside this one and one row in this table."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metapl.data.reading.files import Folders
from metapl.data.reading.records import Records
from metapl.data.sources import cifar, csv_list, digits, folder, idx, imagenet_real, npz, svhn, tfrecord
from metapl.data.sources.source import Files, Images, PictureConfig, Source
from metapl.data.sources.spec import parse_for
from metapl.data.splits.assemble import PictureDataset, assemble
from metapl.data.splits.split import make_split

# settings -> read(settings, folders to look in)
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
}


def read(config: PictureConfig, folders: Folders) -> Source:
    """Read the source that the settings are of."""
    return READERS[type(config)](config, folders)


def load(config: PictureConfig, folders: Folders) -> PictureDataset:
    """Read the source and divide it as its `split` says."""
    spec = parse_for(config.split, config.name)  # before anything is read: a wrong name costs no time
    source = read(config, folders)
    dataset = assemble(source, make_split(spec, source))
    return dataset._replace(test_real=_real_labels(config, dataset, folders))


def _real_labels(config: PictureConfig, dataset: PictureDataset, folders: Folders) -> NDArray[np.bool_] | None:
    """Which labels are right for each test picture (ImageNet-ReaL), if the settings name a file that says so."""
    if not isinstance(config, (folder.Folder, tfrecord.TFRecord)) or not config.real_labels:
        return None
    real = imagenet_real.read(folders, config.real_labels)
    names = _file_names(dataset.test, config.name_field if isinstance(config, tfrecord.TFRecord) else "")
    mask = imagenet_real.as_mask(imagenet_real.in_order_of(real, names), len(dataset.class_names))
    imagenet_real.refuse_other_numbers(mask, dataset.test_labels)
    return mask


def _file_names(images: Images, field: str) -> list[str]:
    """What the pictures' files are called, or were called before they became records."""
    match images:
        case Files(paths=paths):
            return [path.name for path in paths]
        case Records():
            return [images.text(i, field) or images.name(i) for i in range(len(images))]
    raise TypeError(f"pictures of the kind {type(images).__name__} have no file names")
