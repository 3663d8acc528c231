"""Compare an export with the network that it was made from, on real pictures, before it is kept."""

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl import data
from metapl.data import pictures
from metapl.data.reading.files import Folders
from metapl.data.reading.find_pictures import find
from metapl.data.reading.read_ahead import read_ahead
from metapl.data.sources.on_disk import read
from metapl.data.sources.source import PictureConfig
from metapl.evaluate.finished_run import finding_data
from metapl.evaluate.predictor import Predictor
from metapl.schema import ConfigError

COUNT = 48  # examples to compare on
BATCH_SIZES = (1, 3, 17)  # of the first batches; the rest is one batch
TOLERANCE = 1e-3  # of a probability: other programs add float32 in another order
ROUGH_TOLERANCE = 5e-2  # if the network was trained in bfloat16, and the export computes in float32

Examples = NDArray[np.generic]
Predict = Callable[[Examples], NDArray[np.float32]]  # examples -> probabilities


class CheckExamples(NamedTuple):
    """Examples to compare on, and words for the user that say what they are."""

    examples: Examples
    words: str


def examples_for(predictor: Predictor, run: Path, check: Path | None, folders: Folders) -> CheckExamples:
    """Take pictures of the folder `check`; without it the run's own examples, or noise if those cannot be read."""
    if check is not None:
        return CheckExamples(_from_folder(predictor, check), f"pictures of {check}")
    try:
        return _own(predictor, run, folders)
    except (ConfigError, OSError):
        draw, shape = np.random.default_rng(0), (COUNT, *predictor.example.shape)
        noise = draw.integers(0, 256, shape) if predictor.takes_pictures else draw.normal(size=shape)
        return CheckExamples(noise.astype(predictor.example.dtype), "random examples (the run's data were not found)")


def _from_folder(predictor: Predictor, check: Path) -> Examples:
    files = list(islice(read_ahead(find([str(check)]), predictor.read, 2, COUNT), COUNT))
    readable = [file.picture for file in files if file.picture is not None]
    if not readable:
        raise ConfigError(f"--check {check}: {files[0].problem}")
    return np.stack(readable)


def _own(predictor: Predictor, run: Path, folders: Folders) -> CheckExamples:
    """Take some of the run's test examples, or labelled ones if it has no test examples."""
    config = predictor.config.data
    with finding_data(run, folders) as places:
        if not isinstance(config, PictureConfig):
            (points,) = data.load(config, [predictor.config.seed], places)
            return CheckExamples(np.asarray(points.test[:COUNT]), "test examples of the run")
        dataset = pictures.load(config, places)
        has_test = len(dataset.images("test")) > 0
        images, role = (dataset.images("test"), "test") if has_test else (dataset.images("labeled"), "labelled")
        rows = np.linspace(0, len(images) - 1, min(COUNT, len(images))).astype(int)
        chosen = np.stack([read(images, int(row), config.size) for row in rows])
    if chosen.shape[1:] != predictor.example.shape:
        raise ConfigError("the data are not those of the run")
    return CheckExamples(chosen, f"{role} pictures of the run")


def largest_difference(predictor: Predictor, exported: Predict, examples: Examples) -> float:
    """Compare every probability, in batches of several sizes; NaN if any probability is NaN."""
    predictions, start = [], 0
    for size in (*BATCH_SIZES, len(examples)):
        batch = examples[start : start + size]
        if len(batch):
            predictions.append(exported(batch))
            if predictions[-1].shape != (len(batch), len(predictor.class_names)):
                shape = list(predictions[-1].shape)
                raise ConfigError(f"the export gives {shape} numbers for {len(batch)} examples; it is not kept")
        start += size
    return float(np.max(np.abs(np.concatenate(predictions) - predictor.probabilities(examples))))


def refuse_if_far(kind: str, difference: float, tolerance: float) -> None:
    """Raise ConfigError if an export differs by more than the tolerance."""
    if not difference <= tolerance:  # also true for NaN
        raise ConfigError(
            f"the {kind} export differs from the run by {difference:.2g} in a probability, more than {tolerance:g}: "
            "it is not kept"
        )
