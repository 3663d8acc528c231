"""Pictures in, answers out, in the same order and a batch at a time: memory does not grow with their number."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.data.reading.find_pictures import FoundPicture
from metapl.data.reading.read_ahead import Read, read_ahead
from metapl.evaluate.predictor import Predictor
from metapl.system import runtime

BATCHES_AHEAD = 2  # that are read while one is answered


class Answer(NamedTuple):
    """What the run says of one picture, or why it says nothing."""

    path: Path
    probabilities: NDArray[np.float32] | None  # [classes]
    problem: str = ""


def answer(predictor: Predictor, places: Iterable[FoundPicture]) -> Iterator[Answer]:
    """Answer about each picture in turn; what cannot be read is told of in its place."""
    size = predictor.batch_size()
    with closing(read_ahead(places, predictor.read, runtime.cores(), BATCHES_AHEAD * size)) as pictures:
        while some := tuple(islice(pictures, size)):
            yield from answer_batch(predictor, some)


def answer_batch(predictor: Predictor, some: Sequence[Read]) -> Iterator[Answer]:
    """Answer about pictures that have been read."""
    pictures = [read.picture for read in some if read.picture is not None]
    rows: Iterator[NDArray[np.float32]] = iter(predictor.probabilities(np.stack(pictures)) if pictures else [])
    for path, picture, problem in some:
        if picture is None:
            yield Answer(path, None, problem)
        elif np.isfinite(row := next(rows)).all():
            yield Answer(path, row)
        else:
            yield Answer(path, None, "the network's answer is not a number")


def best(probabilities: NDArray[np.float32], count: int) -> list[int]:
    """The most probable classes, the first one first; of equal ones the earlier."""
    return np.argsort(-probabilities, kind="stable")[:count].tolist()
