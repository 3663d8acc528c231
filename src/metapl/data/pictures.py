"""The sources of pictures. A new one is one file beside this one and one row in this table."""

from collections.abc import Callable
from typing import Any

from metapl.data import cifar, csv_list, digits, folder, idx, npz, svhn, tfrecord
from metapl.data.assemble import PictureDataset, assemble
from metapl.data.files import Folders
from metapl.data.source import PictureConfig, Source
from metapl.data.spec import parse_for
from metapl.data.split import make_split

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
    return assemble(source, make_split(spec, source))
