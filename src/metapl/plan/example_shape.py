"""What examples look like, without reading any: shapes are all that a compiler needs."""

from typing import NamedTuple

from metapl.config import Config
from metapl.data.sources.source import PictureConfig
from metapl.schema import ConfigError


class Examples(NamedTuple):
    """Of one data set."""

    shape: tuple[int, ...]  # of one example as it is stored; pictures [H, W, C] are uint8, points [D] float32
    classes: int

    @property
    def are_pictures(self) -> bool:
        """Or points."""
        return len(self.shape) == 3


KNOWN = {
    "two_moons": Examples((2,), 2),
    "digits": Examples((8, 8, 1), 10),
    "cifar10": Examples((32, 32, 3), 10),
    "cifar100": Examples((32, 32, 3), 100),
    "svhn": Examples((32, 32, 3), 10),
    "mnist": Examples((28, 28, 1), 10),
    "fashion_mnist": Examples((28, 28, 1), 10),
    "tfrecord": Examples((0, 0, 3), 1000),
}
OWN = Examples((0, 0, 3), 0)  # a user's own pictures: they are RGB, and only their user knows the rest


def of(config: Config, classes: int = 0, size: int = 0) -> Examples:
    """Say it of a run's data; `classes` and `size` of pictures may be told, and must be where nothing else says."""
    found = KNOWN.get(config.data.name, OWN)
    if found.are_pictures:
        assert isinstance(config.data, PictureConfig)
        side = size or config.data.size or found.shape[0]
        if not side:
            raise ConfigError(f"how large pictures of {config.data.name} are, no file was asked: say it with --size")
        found = found._replace(shape=(side, side, found.shape[2]))
    elif size:
        raise ConfigError(f"{config.data.name} has points, not pictures: leave --size out")
    if classes or not found.classes:
        if not classes:
            raise ConfigError(f"how many classes {config.data.name} has, no file was asked: say it with --classes")
        found = found._replace(classes=classes)
    return found
