"""Read files in parallel, in their order; one that cannot be read is an answer like any other."""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.data.reading.decode import BadImage
from metapl.data.reading.find_pictures import FoundPicture


class Read(NamedTuple):
    """What was found in a place: a picture, or why there is none."""

    path: Path
    picture: NDArray[np.uint8] | None
    problem: str = ""


def read_ahead(
    places: Iterable[FoundPicture], read: Callable[[Path], NDArray[np.uint8]], threads: int, ahead: int
) -> Generator[Read]:
    """Yield what is in each place, in turn, while threads read up to `ahead` places further."""

    def attempt(found: FoundPicture) -> Read:
        if found.problem:
            return Read(found.path, None, found.problem)
        try:
            return Read(found.path, read(found.path))
        except BadImage as error:
            return Read(found.path, None, error.reason)

    rest = iter(places)
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[Read]] = deque(pool.submit(attempt, found) for found in islice(rest, ahead))
        try:
            while waiting:
                done = waiting.popleft().result()
                waiting.extend(pool.submit(attempt, found) for found in islice(rest, 1))
                yield done
        finally:
            for future in waiting:
                future.cancel()
