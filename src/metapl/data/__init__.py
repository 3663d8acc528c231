"""The data sources. A new one is one file in sources/ and one row: here for points, in `pictures.READERS` else."""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from metapl.data import pictures
from metapl.data.open_source import settings_beside
from metapl.data.reading.files import Folders
from metapl.data.sources import arrays, features, two_moons
from metapl.data.sources.csv_list import CsvList
from metapl.data.sources.dataset import Dataset, SourceConfig
from metapl.data.sources.source import PictureConfig
from metapl.data.splits.assemble import to_dataset

if TYPE_CHECKING:
    from metapl.features.load import Prepared

# settings -> make(settings, seed): data that each seed draws anew
MAKERS: dict[type[SourceConfig], Callable[[Any, int], Dataset]] = {
    two_moons.TwoMoons: two_moons.load,
    arrays.Arrays: arrays.load,
}

SOURCES: tuple[type[SourceConfig], ...] = (*MAKERS, features.Features, *pictures.READERS)


def load(
    config: SourceConfig, seeds: list[int], folders: Folders, tell: Callable[[str], None] = lambda _: None
) -> list[Dataset]:
    """Read or make one dataset for each seed. Pictures are the same for all seeds, so all share one object."""
    if isinstance(config, PictureConfig):
        return [to_dataset(pictures.load(config, folders), config, tell)] * len(seeds)
    if isinstance(config, features.Features):
        return _load_features(config, seeds, folders, tell)
    return [MAKERS[type(config)](config, seed) for seed in seeds]


def settled(config: SourceConfig) -> SourceConfig:
    """Replace what depends on this machine (the encoder `auto`) by what it has: a resumed run must find the same."""
    if not isinstance(config, features.Features):
        return config
    from metapl.features import encoders  # imports jax, which sources do without

    return encoders.settled(config)


def encoded_pictures(config: features.Features, folders: Folders) -> PictureConfig:
    """Return the settings of the pictures that the source `features` encodes."""
    settings = dataclasses.replace(settings_beside(config.source, folders), size=config.size)
    return dataclasses.replace(settings, outside=config.outside) if isinstance(settings, CsvList) else settings


def prepare_features(config: features.Features, folders: Folders, tell: Callable[[str], None]) -> "Prepared":
    """Find the pictures and their cache, and make the encoder; `metapl.features.load` goes on from there."""
    from metapl.features.load import prepare  # imports jax, which sources do without

    settings = encoded_pictures(config, folders)
    loaded = pictures.load(settings, folders)
    return prepare(config, loaded, (settings.mirrored, settings.shift_pixels), tell)


def _load_features(
    config: features.Features, seeds: list[int], folders: Folders, tell: Callable[[str], None]
) -> list[Dataset]:
    from metapl.features import load  # imports jax, which sources do without

    return load.load(prepare_features(config, folders, tell), seeds)
