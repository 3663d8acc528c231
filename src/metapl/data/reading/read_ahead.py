"""Work on files with several threads, in order. A file that cannot be read gives a result with a problem."""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from metapl.data.reading.decode import BadImage
from metapl.data.reading.find_pictures import FoundPicture

Item = TypeVar("Item")
Result = TypeVar("Result")


class Read(NamedTuple):
    """A picture that was read, or the problem that prevented it."""

    path: Path
    picture: NDArray[np.uint8] | None
    problem: str = ""


def read_ahead(
    places: Iterable[FoundPicture], read: Callable[[Path], NDArray[np.uint8]], threads: int, ahead: int
) -> Generator[Read]:
    """Yield the picture of each place, in order, while threads read up to `ahead` places further."""

    def attempt(place: FoundPicture) -> Read:
        if place.problem:
            return Read(place.path, None, place.problem)
        try:
            return Read(place.path, read(place.path))
        except BadImage as error:
            return Read(place.path, None, error.reason)

    return in_order(attempt, places, threads, ahead)


def in_order(function: Callable[[Item], Result], items: Iterable[Item], threads: int, ahead: int) -> Generator[Result]:
    """Yield the function's result for each item, in order, while threads work up to `ahead` items further."""
    rest = iter(items)
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[Result]] = deque(pool.submit(function, item) for item in islice(rest, ahead))
        try:
            while waiting:
                done = waiting.popleft().result()
                waiting.extend(pool.submit(function, item) for item in islice(rest, 1))
                yield done
        finally:
            for future in waiting:
                future.cancel()
