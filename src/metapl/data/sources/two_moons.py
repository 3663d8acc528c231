"""The TwoMoon data of Section 3.1: 2,000 points in two interleaved half circles, 3 labelled in each.

The paper does not say how noisy its moons are; the default of `noise` is our choice. As in the paper's figure, a method
is evaluated on the points that it has seen: all of them are test points.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge

from metapl.data.sources.dataset import Dataset, SourceConfig


@dataclass(frozen=True)
class TwoMoons(SourceConfig):
    """Two half circles in the plane, drawn from the seed."""

    name: ClassVar[str] = "two_moons"

    points_per_class: Annotated[int, Ge(2)] = 1000
    """Points in each moon."""
    labels_per_class: Annotated[int, Ge(1)] = 3
    """Labelled points in each moon."""
    noise: Annotated[float, Ge(0)] = 0.1
    """Standard deviation of the Gaussian noise on each coordinate; the moons have radius 1."""
    standardize: bool = False
    """Shift and scale each coordinate to mean 0 and standard deviation 1."""

    def check(self) -> None:
        """Check fields against each other."""
        if self.labels_per_class >= self.points_per_class:
            raise ValueError(
                f"labels_per_class ({self.labels_per_class}) must be fewer than "
                f"points_per_class ({self.points_per_class})"
            )


def load(config: TwoMoons, seed: int) -> Dataset:
    """Draw the points, then choose which are labelled; both depend on the seed alone."""
    from sklearn.datasets import make_moons  # takes a second of processor time, which other sources must not wait for

    draw = np.random.RandomState(seed)
    sizes = (config.points_per_class, config.points_per_class)
    points, classes = make_moons(sizes, noise=abs(config.noise), random_state=draw)  # NumPy refuses -0.0
    if config.standardize:
        points = (points - points.mean(0)) / points.std(0)
    chosen = np.concatenate([draw.choice(np.flatnonzero(classes == c), config.labels_per_class, False) for c in (0, 1)])
    rest = np.setdiff1d(np.arange(len(points)), chosen)
    points, labels = points.astype(np.float32), classes.astype(np.int32)
    names = ("upper moon", "lower moon")
    return Dataset(points[chosen], labels[chosen], points[rest], points, labels, names, truth=labels[rest])
