"""Does an export give the answers of the network it was made from? Asked about real pictures before it is kept."""

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

COUNT = 48  # examples that are asked about
ASKED_AT_ONCE = (1, 3, 17)  # sizes of the first batches; the rest comes as one
TOLERANCE = 1e-3  # of a probability: float32 rounds in another order elsewhere
ROUGH_TOLERANCE = 5e-2  # where the network was trained in bfloat16, and the export computes in float32

Examples = NDArray[np.generic]
Ask = Callable[[Examples], NDArray[np.float32]]


class Asked(NamedTuple):
    """Examples to compare on, and what they are, for the user."""

    examples: Examples
    what: str


def examples_for(predictor: Predictor, run: Path, check: Path | None, folders: Folders) -> Asked:
    """Take pictures of the folder that the user names, else the run's own, else noise."""
    if check is not None:
        return Asked(_from_folder(predictor, check), f"pictures of {check}")
    try:
        return _own(predictor, run, folders)
    except (ConfigError, OSError):
        draw, shape = np.random.default_rng(0), (COUNT, *predictor.example.shape)
        noise = draw.integers(0, 256, shape) if predictor.takes_pictures else draw.normal(size=shape)
        return Asked(noise.astype(predictor.example.dtype), "random examples (the run's data are not here)")


def _from_folder(predictor: Predictor, check: Path) -> Examples:
    found = list(islice(read_ahead(find([str(check)]), predictor.read, 2, COUNT), COUNT))
    good = [one.picture for one in found if one.picture is not None]
    if not good:
        raise ConfigError(f"--check {check}: {found[0].problem}")
    return np.stack(good)


def _own(predictor: Predictor, run: Path, folders: Folders) -> Asked:
    """Some of the run's test examples, or of its labelled ones where it has no others."""
    config = predictor.config.data
    with finding_data(run, folders) as places:
        if not isinstance(config, PictureConfig):
            (dataset,) = data.load(config, [predictor.config.seed], places)
            return Asked(np.asarray(dataset.test[:COUNT]), "test examples of the run")
        found = pictures.load(config, places)
        has_test = len(found.images("test")) > 0
        images, part = (found.images("test"), "test") if has_test else (found.images("labeled"), "labelled")
        rows = np.linspace(0, len(images) - 1, min(COUNT, len(images))).astype(int)
        chosen = np.stack([read(images, int(row), config.size) for row in rows])
    if chosen.shape[1:] != predictor.example.shape:
        raise ConfigError("the data are not those of the run")
    return Asked(chosen, f"{part} pictures of the run")


def largest_difference(predictor: Predictor, ask: Ask, examples: Examples) -> float:
    """Ask both, in batches of several sizes, and compare every probability; NaN if any answer is."""
    answers, start = [], 0
    for size in (*ASKED_AT_ONCE, len(examples)):
        some = examples[start : start + size]
        if len(some):
            answers.append(ask(some))
            if answers[-1].shape != (len(some), len(predictor.class_names)):
                wrong = list(answers[-1].shape)
                raise ConfigError(f"the export answers {wrong} to {len(some)} examples; it is not kept")
        start += size
    return float(np.max(np.abs(np.concatenate(answers) - predictor.probabilities(examples))))


def refuse_if_far(kind: str, difference: float, tolerance: float) -> None:
    """Keep no export that says something else; one that is not a number is far, too."""
    if not difference <= tolerance:
        raise ConfigError(
            f"the {kind} export differs from the run by {difference:.2g} in a probability, more than {tolerance:g}: "
            "it is not kept"
        )
