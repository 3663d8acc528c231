"""Pictures of a run's test part that it is most, least and wrongly sure of, and how far its certainty can be trusted.

No run stores its answers, so that its weights are asked again, about its own data and no others.
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
from metapl.report.blocks import Figure, Gallery, Picture, Plain, Text
from metapl.report.read import Loaded
from metapl.report.small_pictures import as_data, example
from metapl.report.svg import Line, line_chart
from metapl.runs.label_paths import MOST_TEST, evenly_spaced
from metapl.schema import ConfigError


class Asked(NamedTuple):
    """A run's answers to its test examples."""

    rows: NDArray[np.int64]  # which examples
    probabilities: NDArray[np.float32]  # [N, classes]
    labels: NDArray[np.int32]
    of: int  # examples that there are
    seed: int

    @property
    def certainty(self) -> NDArray[np.float64]:
        """How probable the answer is."""
        return self.probabilities.max(-1).astype(np.float64)

    @property
    def right(self) -> NDArray[np.bool_]:
        """Whose answer is the right one."""
        return self.probabilities.argmax(-1) == self.labels

    def as_answers(self) -> teacher.Answers:
        """What is compared with another network's."""
        return teacher.Answers(self.rows, self.probabilities.argmax(-1), self.certainty)


def pictures(loaded: Loaded, folders: Folders, each: int) -> list[Plain]:
    """Ask the run, and show what it has noted; a sentence says why, where that cannot be."""
    path, noted = loaded.run.path.absolute(), labels.read(loaded.run.path)
    none = [Text("No test pictures and no calibration plot: the run has not come to its end.", "note")]
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
                raise ConfigError("the weights are of other classes than the data")
            return [*_of_test(network, dataset, noted, each), *labels.paths(noted, dataset, loaded.stage_steps, each)]
    except (ConfigError, OSError, ValueError) as error:
        return [Text(f"No pictures and no calibration plot: {error}", "warning")]


def _dataset(loaded: Loaded, config: Config, seed: int, places: Folders) -> Dataset:
    """The run's own, or nobody's."""
    dataset = data.load(config.data, [seed], places)[0]
    if dataset.manifest is not None:
        if not loaded.split:
            raise ConfigError("split.json is missing or damaged: whether these are the run's data is not known")
        check_manifest(loaded.split, dataset.manifest)
    return dataset


def _of_test(network: Predictor, dataset: Dataset, noted: labels.Noted, each: int) -> list[Plain]:
    asked = _ask(network, dataset.test, dataset.test_labels)
    if not len(asked.rows):
        return [Text("No test pictures and no calibration plot: there are no test examples to ask about.", "note")]
    if not np.isfinite(asked.probabilities).all():
        return [Text("No test pictures and no calibration plot: the network's answers are not finite.", "warning")]
    if not network.takes_pictures:
        return [calibration(asked)]
    found = [calibration(asked), *_galleries(asked, dataset.test, network.class_names, each)]
    return found + teacher.beside(noted, asked.as_answers(), dataset, network.seed, each)


def _ask(network: Predictor, test: Examples, labels: NDArray[np.int32]) -> Asked:
    """Read and answer a batch at a time: large pictures are not all in memory at once."""
    rows = evenly_spaced(len(test), MOST_TEST)
    kept, answers = [], []
    size = network.batch_size()
    for start in range(0, len(rows), size):
        some = [(int(row), one) for row in rows[start : start + size] if (one := example(test, int(row))) is not None]
        if some:
            kept += [row for row, _ in some]
            answers.append(network.probabilities(np.stack([one for _, one in some])))
    found = np.array(kept, np.int64)
    classes = len(network.class_names)
    together = np.concatenate(answers) if answers else np.zeros((0, classes), np.float32)
    return Asked(found, together, labels[found], len(test), network.seed)


def calibration(asked: Asked) -> Figure:
    """How often answers of each certainty are right: on the diagonal, as often as they say."""
    certainty, right = asked.certainty, asked.right
    bins = np.digitize(certainty, np.linspace(0, 1, BINS + 1)[1:-1], right=True)
    counts = np.bincount(bins, minlength=BINS)
    full = counts > 0
    said = np.bincount(bins, certainty, BINS)[full] / counts[full]
    was = np.bincount(bins, right, BINS)[full] / counts[full]
    error = 100 * calibration_error(certainty, right)
    told = (
        f"{BINS} bins of equal width, {_of(asked)}, seed {asked.seed}. Expected calibration error {error:.2f} %; mean "
        f"certainty {100 * certainty.mean():.2f} %, accuracy {100 * right.mean():.2f} %. Below the diagonal the "
        "network is surer than it should be."
    )
    both = np.array([0.0, 100.0])
    lines = [Line("answers", 100 * said, 100 * was, dots=True), Line("as sure as right", both, both)]
    labels = ("certainty (%)", "right (%)")
    return line_chart("Calibration on the test part", told, lines, labels, (0.0, 100.0), (0.0, 100.0))


def _of(asked: Asked) -> str:
    if len(asked.rows) == asked.of:
        return f"all {asked.of:,} test examples"
    return f"{len(asked.rows):,} of {asked.of:,} test examples, at equal distances"


def _galleries(asked: Asked, test: Examples, names: Sequence[str], each: int) -> list[Plain]:
    order = np.argsort(asked.certainty, kind="stable")
    wrong = order[~asked.right[order]]
    among = f"Of {_of(asked)}, seed {asked.seed}."
    kinds = (
        ("Most certain", order[::-1][:each]),
        ("Least certain", order[:each]),
        ("Errors, the most certain first", wrong[::-1][:each]),
    )
    found: list[Plain] = []
    for title, places in kinds:
        shown = [Picture(as_data(example(test, int(asked.rows[i]))), _caption(asked, int(i), names)) for i in places]
        found.append(Gallery(title, among if shown else f"{among} There are none.", shown))
    return found


def _caption(asked: Asked, place: int, names: Sequence[str]) -> str:
    answer, truth = int(asked.probabilities[place].argmax()), int(asked.labels[place])
    known = "right" if answer == truth else f"is {names[truth]}"
    return f"{names[answer]} {100 * asked.certainty[place]:.1f} %, {known}"
