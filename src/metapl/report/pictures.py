"""A run's most certain, least certain and wrong predictions for test pictures, and a calibration plot.

Runs do not store their predictions, so the weights predict again, for the run's own data only.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl import data
from metapl.config import Config
from metapl.data.reading.files import Folders
from metapl.data.sources.dataset import Dataset
from metapl.data.sources.on_disk import Examples
from metapl.data.splits.manifest import check_manifest
from metapl.evaluate import predictor
from metapl.evaluate.finished_run import finding_data, settings
from metapl.evaluate.measures import BINS, calibration_error
from metapl.evaluate.predictor import Predictor
from metapl.report import labels, teacher
from metapl.report.blocks import Figure, Gallery, GalleryPicture, Plain, Text
from metapl.report.read import ReportedRun
from metapl.report.small_pictures import as_data, example
from metapl.report.svg import Line, line_chart
from metapl.runs.label_paths import MOST_TEST, evenly_spaced
from metapl.schema import ConfigError


class PredictedProbabilities(NamedTuple):
    """A run's predictions for its test examples."""

    rows: NDArray[np.int64]  # which examples
    probabilities: NDArray[np.float32]  # [N, classes]
    labels: NDArray[np.int32]
    of: int  # test examples in all
    seed: int

    @property
    def certainty(self) -> NDArray[np.float64]:
        """The probability of the predicted class."""
        return self.probabilities.max(-1).astype(np.float64)

    @property
    def right(self) -> NDArray[np.bool_]:
        """Whether the predicted class is the true one."""
        return self.probabilities.argmax(-1) == self.labels

    def classes(self) -> teacher.PredictedClasses:
        """The predicted classes, to compare with another network's."""
        return teacher.PredictedClasses(self.rows, self.probabilities.argmax(-1), self.certainty)


def pictures(loaded: ReportedRun, folders: Folders, each: int) -> list[Plain]:
    """Predict again, and show the labels that the run recorded; or say why that is not possible."""
    path, noted = loaded.run.path.absolute(), labels.read(loaded.run.path)
    none = [Text("No test pictures and no calibration plot: the run is not finished.", "note")]
    if not loaded.finished and not noted.moments:
        return [*none, labels.NOTHING]
    try:
        with finding_data(path, folders) as places:
            if not loaded.finished:
                config = settings(path)
                return [
                    *none,
                    *labels.paths(noted, _dataset(loaded, config, config.seed, places), loaded.stage_steps, each),
                ]
            network = predictor.load(path)
            dataset = _dataset(loaded, network.config, network.seed, places)
            if tuple(network.class_names) != tuple(dataset.class_names):
                raise ConfigError("the weights have other classes than the data")
            return [*_of_test(network, dataset, noted, each), *labels.paths(noted, dataset, loaded.stage_steps, each)]
    except (ConfigError, OSError, ValueError) as error:
        return [Text(f"No pictures and no calibration plot: {error}", "warning")]


def _dataset(loaded: ReportedRun, config: Config, seed: int, places: Folders) -> Dataset:
    """The run's data; `ConfigError` if they are not the ones it was trained with."""
    dataset = data.load(config.data, [seed], places)[0]
    if dataset.manifest is not None:
        if not loaded.split:
            raise ConfigError(
                "split.json is missing or damaged, so metapl cannot check whether these are the run's data"
            )
        check_manifest(loaded.split, dataset.manifest)
    return dataset


def _of_test(network: Predictor, dataset: Dataset, noted: labels.RecordedLabels, each: int) -> list[Plain]:
    predicted = _predict(network, dataset.test, dataset.test_labels)
    if not len(predicted.rows):
        return [Text("No test pictures and no calibration plot: there are no test examples.", "note")]
    if not np.isfinite(predicted.probabilities).all():
        return [Text("No test pictures and no calibration plot: the network's predictions are not finite.", "warning")]
    if not network.takes_pictures:
        return [calibration(predicted)]
    blocks = [calibration(predicted), *_galleries(predicted, dataset.test, network.class_names, each)]
    return blocks + teacher.compare_with_student(noted, predicted.classes(), dataset, network.seed, each)


def _predict(network: Predictor, test: Examples, labels: NDArray[np.int32]) -> PredictedProbabilities:
    """Read and predict a batch at a time, so that memory holds few large pictures at once."""
    rows = evenly_spaced(len(test), MOST_TEST)
    kept: list[int] = []
    parts: list[NDArray[np.float32]] = []
    size = network.batch_size()
    for start in range(0, len(rows), size):
        read = ((int(row), example(test, int(row))) for row in rows[start : start + size])
        batch = {row: picture for row, picture in read if picture is not None}
        if batch:
            kept += batch
            parts.append(network.probabilities(np.stack(list(batch.values()))))
    readable = np.array(kept, np.int64)
    classes = len(network.class_names)
    probabilities = np.concatenate(parts) if parts else np.zeros((0, classes), np.float32)
    return PredictedProbabilities(readable, probabilities, labels[readable], len(test), network.seed)


def calibration(predicted: PredictedProbabilities) -> Figure:
    """How often predictions of each certainty are right; on the diagonal, both are equal."""
    certainty, right = predicted.certainty, predicted.right
    bins = np.digitize(certainty, np.linspace(0, 1, BINS + 1)[1:-1], right=True)
    counts = np.bincount(bins, minlength=BINS)
    full = counts > 0
    mean_certainty = np.bincount(bins, certainty, BINS)[full] / counts[full]
    share_right = np.bincount(bins, right, BINS)[full] / counts[full]
    error = 100 * calibration_error(certainty, right)
    description = (
        f"{BINS} bins of equal width, {_of(predicted)}, seed {predicted.seed}. Expected calibration error {error:.2f} "
        f"%; mean certainty {100 * certainty.mean():.2f} %, accuracy {100 * right.mean():.2f} %. Below the diagonal "
        "the network is too certain."
    )
    both = np.array([0.0, 100.0])
    lines = [Line("predictions", 100 * mean_certainty, 100 * share_right, dots=True)]
    lines.append(Line("perfectly calibrated", both, both))
    labels = ("certainty (%)", "right (%)")
    return line_chart("Calibration on the test part", description, lines, labels, (0.0, 100.0), (0.0, 100.0))


def _of(predicted: PredictedProbabilities) -> str:
    if len(predicted.rows) == predicted.of:
        return f"all {predicted.of:,} test examples"
    return f"{len(predicted.rows):,} of {predicted.of:,} test examples, at equal distances"


def _galleries(predicted: PredictedProbabilities, test: Examples, names: Sequence[str], each: int) -> list[Plain]:
    order = np.argsort(predicted.certainty, kind="stable")
    wrong = order[~predicted.right[order]]
    among = f"Of {_of(predicted)}, seed {predicted.seed}."
    kinds = (
        ("Most certain", order[::-1][:each]),
        ("Least certain", order[:each]),
        ("Errors, the most certain first", wrong[::-1][:each]),
    )
    galleries: list[Plain] = []
    for title, places in kinds:
        shown = [
            GalleryPicture(as_data(example(test, int(predicted.rows[i]))), _caption(predicted, int(i), names))
            for i in places
        ]
        galleries.append(Gallery(title, among if shown else f"{among} There are none.", shown))
    return galleries


def _caption(predicted: PredictedProbabilities, place: int, names: Sequence[str]) -> str:
    prediction, label = int(predicted.probabilities[place].argmax()), int(predicted.labels[place])
    known = "right" if prediction == label else f"is {names[label]}"
    return f"{names[prediction]} {100 * predicted.certainty[place]:.1f} %, {known}"
