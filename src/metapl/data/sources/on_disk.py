"""Pictures that stay on disk until they are needed, used like the array that they would fill."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.data.reading.decode import DataError
from metapl.data.reading.resize import TO_SCALE, centre_square
from metapl.system import runtime

if TYPE_CHECKING:
    from metapl.data.sources.source import Images

MANY_CORES = 4  # with more cores, one process cannot decode fast enough: parts of it run under Python's lock


class Reading(NamedTuple):
    """How pictures are read; it does not change which pictures are in which batch."""

    workers: int = 0  # processes that decode; 0: threads of this process
    threads: int = 2  # that decode in this process, if there are no workers


def usual_reading(workers: int = -1) -> Reading:
    """The given number of workers; −1: one for each core if there are over four, else threads, which start faster."""
    cores = runtime.cores()
    return Reading((cores if cores > MANY_CORES else 0) if workers < 0 else workers, cores)


@dataclass(frozen=True, eq=False)
class OnDisk:
    """Pictures [N, H, W, C] that are decoded when they are needed."""

    images: "Images"
    size: int
    """Side of the square that each picture is cut and scaled to; 0: as stored, all of one size."""
    reading: Reading

    dtype = np.dtype(np.uint8)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, rows: slice) -> NDArray[np.uint8]:
        """A few neighbouring pictures; `files_loader.in_turn` reads many."""
        return stack([read(self.images, i, self.size) for i in range(len(self))[rows]], self.size)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array; reads the first picture."""
        return (len(self), *self[:1].shape[1:])


Examples = NDArray[np.generic] | OnDisk


def read(images: "Images", index: int, size: int) -> NDArray[np.uint8]:
    """One picture [H, W, C], cut and scaled to `size` unless it is 0."""
    return centre_square(images.reduced(index, TO_SCALE * size), size) if size else images[index]


def stack(pictures: list[NDArray[np.uint8]], size: int) -> NDArray[np.uint8]:
    """Pictures of one size as one array; an empty list gives an array of no pictures."""
    shapes = sorted({picture.shape for picture in pictures})
    if len(shapes) > 1:
        raise DataError(f"the pictures have {len(shapes)} sizes, from {shapes[0]} to {shapes[-1]}; give a size")
    return np.stack(pictures) if pictures else np.zeros((0, size, size, 3), np.uint8)
