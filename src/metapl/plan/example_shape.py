"""The shape of a data set's examples and its number of classes, without reading any data; a compiler needs no more."""

from typing import NamedTuple

from metapl.config import Config
from metapl.schema import ConfigError


class ExampleShape(NamedTuple):
    """The examples of one data set."""

    shape: tuple[int, ...]  # of one stored example; pictures [H, W, C] are uint8, points [D] are float32
    classes: int

    @property
    def are_pictures(self) -> bool:
        """Whether the examples are pictures, not points."""
        return len(self.shape) == 3


KNOWN = {
    "two_moons": ExampleShape((2,), 2),
    "digits": ExampleShape((8, 8, 1), 10),
    "cifar10": ExampleShape((32, 32, 3), 10),
    "cifar100": ExampleShape((32, 32, 3), 100),
    "svhn": ExampleShape((32, 32, 3), 10),
    "mnist": ExampleShape((28, 28, 1), 10),
    "fashion_mnist": ExampleShape((28, 28, 1), 10),
    "tfrecord": ExampleShape((0, 0, 3), 1000),
}
OWN = ExampleShape((0, 0, 3), 0)  # a user's own pictures: RGB, with a size and classes that only the user knows


def of(config: Config, classes: int = 0, size: int = 0) -> ExampleShape:
    """The shape of a run's examples; `classes` and `size` replace the known values and must be given if unknown."""
    known = KNOWN.get(config.data.name, OWN)
    if known.are_pictures:
        side = size or getattr(config.data, "size", 0) or known.shape[0]
        if not side:
            raise ConfigError(f"plan reads no data: give --size, the side of the pictures of {config.data.name}")
        known = known._replace(shape=(side, side, known.shape[2]))
    elif size:
        raise ConfigError(f"{config.data.name} has points, not pictures: leave --size out")
    if classes or not known.classes:
        if not classes:
            raise ConfigError(f"plan reads no data: give --classes, the number of classes of {config.data.name}")
        known = known._replace(classes=classes)
    return known
