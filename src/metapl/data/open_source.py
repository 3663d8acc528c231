"""Open a source by its name, by a split's name, or by a path."""

from collections.abc import Callable
from pathlib import Path

from metapl.data import pictures
from metapl.data.reading.files import Folders
from metapl.data.sources import csv_list, folder, npz, parquet, webdataset
from metapl.data.sources.shards import ShardConfig, below
from metapl.data.sources.source import PictureConfig, Source
from metapl.data.sources.spec import PAPER, parse_spec
from metapl.schema import ConfigError

_SHARDS: tuple[type[ShardConfig], ...] = (webdataset.WebDataset, parquet.Parquet)
_BY_SUFFIX: dict[str, Callable[[str], PictureConfig]] = {
    ".csv": lambda file: csv_list.CsvList(file=file),
    ".npz": lambda file: npz.Npz(file=file),
    ".tar": lambda file: webdataset.WebDataset(path=file),
    ".parquet": lambda file: parquet.Parquet(path=file),
}
READERS = {kind.name: kind for kind in pictures.READERS}


def settings_of(text: str) -> PictureConfig:
    """The settings for a name (cifar10), a split (cifar10-4k, cifar10@4000#1) or a path.

    `digits` is the source of that name, even if there is a folder digits; `./digits` is the folder.
    """
    if config := _by_name(text):
        return config
    path = Path(text).expanduser()
    if path.is_dir():
        # Many picture sets are published as train/<class> and val/<class>.
        only_train = (path / "train").is_dir() and not (path / "labeled").is_dir()
        if kind := _kind_of_shards(path):
            return kind(path=str(path.resolve()))
        return folder.Folder(path=str(path.resolve()), labeled="train" if only_train else "labeled")
    make = _BY_SUFFIX.get(path.suffix)
    if make and (path.is_file() or not path.exists()):  # to open a named pipe would take for ever
        return make(str(path.resolve()))
    found = "is not a folder or one of" if path.exists() else "is not there: expected a folder, or one of"
    raise ConfigError(
        f"{text!r} {found} these files: {', '.join(_BY_SUFFIX)}. It is not the name of a source, either "
        f"({', '.join(READERS)}), or of a split ({', '.join(PAPER)}, cifar10@4000#1)"
    )


def _kind_of_shards(folder: Path) -> type[ShardConfig] | None:
    """The source whose shards are in the folder, at any depth; None if it holds class folders or no shards."""
    if any((folder / name).is_dir() and not _has_shards(folder / name) for name in ("labeled", "train")):
        return None
    return next((kind for kind in _SHARDS if below(folder, kind.suffix)), None)


def _has_shards(folder: Path) -> bool:
    return any(below(folder, kind.suffix) for kind in _SHARDS)


def settings_beside(text: str, folders: Folders) -> PictureConfig:
    """The settings for a name, for a folder inside one of the data folders, or for a path; a name comes first."""
    inside = [folder / text for folder in folders if (folder / text).is_dir()]
    return settings_of(str(inside[0]) if inside and not _by_name(text) else text)


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
    """Read the source. For a split, the parts are the roles that have pictures: labeled, unlabeled, val, test."""
    if config.split == "given":
        return pictures.read(config, folders)
    loaded = pictures.load(config, folders)
    return Source({role: part for role, part in loaded.roles.items() if len(part.images)}, loaded.class_names)
