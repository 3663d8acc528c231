"""The data sources. A new one is one file here and one row in this table."""

from collections.abc import Callable
from typing import Any

from metapl.data import two_moons
from metapl.data.dataset import Dataset, SourceConfig

# settings -> load(settings, seed)
SOURCES: dict[type[SourceConfig], Callable[[Any, int], Dataset]] = {
    two_moons.TwoMoons: two_moons.load,
}


def load(config: SourceConfig, seed: int) -> Dataset:
    """Read or make the data that the settings are of."""
    return SOURCES[type(config)](config, seed)
