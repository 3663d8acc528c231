"""A source by what a person calls it: its name, a split of it, or a path."""

from pathlib import Path

from metapl.data import pictures
from metapl.data.reading.files import Folders
from metapl.data.sources import csv_list, folder, npz
from metapl.data.sources.source import Part, PictureConfig, Source, unlabeled_labels
from metapl.data.sources.spec import PAPER, parse_spec
from metapl.data.splits.assemble import PictureDataset
from metapl.schema import ConfigError

READERS = {kind.name: kind for kind in pictures.READERS}


def settings_of(text: str) -> PictureConfig:
    """The settings that a name (cifar10), a split (cifar10-4k, cifar10@4000#1) or a path stands for.

    A name comes before a folder of the same name; `./digits` is the folder.
    """
    if config := _by_name(text):
        return config
    path = Path(text).expanduser()
    if path.is_dir():
        # Many picture sets come as train/<class> and val/<class>.
        only_train = (path / "train").is_dir() and not (path / "labeled").is_dir()
        return folder.Folder(path=str(path.resolve()), labeled="train" if only_train else "labeled")
    if path.suffix in (".csv", ".npz"):
        file = str(path.resolve())
        return csv_list.CsvList(file=file) if path.suffix == ".csv" else npz.Npz(file=file)
    raise ConfigError(
        f"{text!r} is not a source ({', '.join(READERS)}), a split ({', '.join(PAPER)}, cifar10@4000#1), "
        "a folder, a .csv or an .npz"
    )


def _by_name(text: str) -> PictureConfig | None:
    try:
        spec = parse_spec(text)
    except ConfigError:
        return None
    if spec.source not in READERS:
        return None
    kind = READERS[spec.source]
    return kind() if spec.text == spec.source else kind(split=text)


def open_source(text: str, folders: Folders) -> Source:
    """Read the source that a person calls `text`."""
    return open_settings(settings_of(text), folders)


def open_settings(config: PictureConfig, folders: Folders) -> Source:
    """Read the source; of a split, the parts are its roles: labeled, unlabeled, val and test."""
    if config.split == "given":
        return pictures.read(config, folders)
    return roles(pictures.load(config, folders))


def roles(dataset: PictureDataset) -> Source:
    """A divided source as a source whose parts are the roles that have pictures."""
    parts = {
        "labeled": Part(dataset.labeled, dataset.labels),
        "unlabeled": Part(dataset.unlabeled, unlabeled_labels(len(dataset.unlabeled))),
        "val": Part(dataset.val, dataset.val_labels),
        "test": Part(dataset.test, dataset.test_labels),
    }
    return Source({name: part for name, part in parts.items() if len(part.images)}, dataset.class_names)
