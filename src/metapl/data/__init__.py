"""The data sources. A new one is one file in sources/ and one row: here for points, in `pictures.READERS` else."""

from collections.abc import Callable
from typing import Any

from metapl.data import pictures
from metapl.data.reading.files import Folders
from metapl.data.sources import arrays, two_moons
from metapl.data.sources.dataset import Dataset, SourceConfig
from metapl.data.sources.source import PictureConfig
from metapl.data.splits.assemble import to_dataset

# settings -> make(settings, seed): data that each seed draws anew
MAKERS: dict[type[SourceConfig], Callable[[Any, int], Dataset]] = {
    two_moons.TwoMoons: two_moons.load,
    arrays.Arrays: arrays.load,
}

SOURCES: tuple[type[SourceConfig], ...] = (*MAKERS, *pictures.READERS)


def load(
    config: SourceConfig, seeds: list[int], folders: Folders, tell: Callable[[str], None] = lambda _: None
) -> list[Dataset]:
    """Read or make one dataset for each seed. Pictures are the same for all seeds, so all share one object."""
    if isinstance(config, PictureConfig):
        return [to_dataset(pictures.load(config, folders), config, tell)] * len(seeds)
    return [MAKERS[type(config)](config, seed) for seed in seeds]
