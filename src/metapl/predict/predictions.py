"""Pictures in, predictions out, in the same order and a batch at a time: memory does not grow with their number."""

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

BATCHES_AHEAD = 2  # that are read while the network computes one


class Prediction(NamedTuple):
    """The probabilities for one picture, or why there are none."""

    path: Path
    probabilities: NDArray[np.float32] | None  # [classes]
    problem: str = ""


def predict(predictor: Predictor, places: Iterable[FoundPicture]) -> Iterator[Prediction]:
    """Predict each picture in turn; a picture that cannot be read gets a prediction with a problem."""
    for batch in predict_batches(predictor, places):
        yield from batch


def predict_batches(predictor: Predictor, places: Iterable[FoundPicture]) -> Iterator[list[Prediction]]:
    """Predict pictures in turn, a batch at a time."""
    size = predictor.batch_size()
    with closing(read_ahead(places, predictor.read, runtime.cores(), BATCHES_AHEAD * size)) as pictures:
        while batch := tuple(islice(pictures, size)):
            yield list(predict_batch(predictor, batch))


def predict_batch(predictor: Predictor, batch: Sequence[Read]) -> Iterator[Prediction]:
    """Predict pictures that have been read."""
    pictures = [read.picture for read in batch if read.picture is not None]
    rows: Iterator[NDArray[np.float32]] = iter(predictor.probabilities(np.stack(pictures)) if pictures else [])
    for path, picture, problem in batch:
        if picture is None:
            yield Prediction(path, None, problem)
        elif np.isfinite(row := next(rows)).all():
            yield Prediction(path, row)
        else:
            yield Prediction(path, None, "the network's output is not a number")


def best(probabilities: NDArray[np.float32], count: int) -> list[int]:
    """The most probable classes, the most probable first; of equally probable classes the earlier first."""
    return np.argsort(-probabilities, kind="stable")[:count].tolist()
