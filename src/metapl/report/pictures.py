"""Pictures of a run's test part that it is most, least and wrongly sure of, and how far its certainty can be trusted.

No run stores its answers, so that its weights are asked again, about its own data and no others.
"""

import base64
import io
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from metapl import data, predictor
from metapl.data.decode import BadImage
from metapl.data.files import Folders
from metapl.data.manifest import check_manifest
from metapl.data.on_disk import Examples
from metapl.evaluate_run import finding_data
from metapl.measures import BINS, calibration_error
from metapl.predictor import Predictor
from metapl.report.blocks import Figure, Gallery, Picture, Plain, Text
from metapl.report.read import Loaded
from metapl.report.svg import Line, line_chart
from metapl.schema import ConfigError

MOST_ASKED = 10_000  # test examples, at equal distances where there are more
SIDE = 96  # pixels of the longer side of what is shown


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


def pictures(loaded: Loaded, folders: Folders, each: int) -> list[Plain]:
    """Ask the run; a sentence says why, where that cannot be."""
    if not loaded.finished:
        return [Text("No pictures and no calibration plot: the run has not come to its end.", "note")]
    path = loaded.run.path.absolute()
    try:
        network = predictor.load(path)
        with finding_data(path, folders) as places:
            dataset = data.load(network.config.data, [network.seed], places)[0]
            if dataset.manifest is not None:
                check_manifest(loaded.split, dataset.manifest)
            asked = _ask(network, dataset.test, dataset.test_labels)
            if not len(asked.rows):
                return [Text("No pictures and no calibration plot: there are no test examples to ask about.", "note")]
            shown = _galleries(asked, dataset.test, network.class_names, each) if network.takes_pictures else []
    except (ConfigError, OSError, ValueError) as error:
        return [Text(f"No pictures and no calibration plot: {error}", "warning")]
    return [calibration(asked), *shown]


def _ask(network: Predictor, test: Examples, labels: NDArray[np.int32]) -> Asked:
    """Read and answer a batch at a time: large pictures are not all in memory at once."""
    rows = np.unique(np.linspace(0, len(test) - 1, min(len(test), MOST_ASKED)).round().astype(np.int64))
    kept, answers = [], []
    size = network.batch_size()
    for start in range(0, len(rows), size):
        some = [(int(row), one) for row in rows[start : start + size] if (one := _one(test, int(row))) is not None]
        if some:
            kept += [row for row, _ in some]
            answers.append(network.probabilities(np.stack([one for _, one in some])))
    found = np.array(kept, np.int64)
    classes = len(network.class_names)
    together = np.concatenate(answers) if answers else np.zeros((0, classes), np.float32)
    return Asked(found, together, labels[found], len(test), network.seed)


def _one(test: Examples, row: int) -> NDArray[np.generic] | None:
    """One example; None for a picture that cannot be read any more."""
    try:
        return np.asarray(test[row : row + 1][0])
    except BadImage:
        return None


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
        shown = [Picture(_data(_one(test, int(asked.rows[i]))), _caption(asked, int(i), names)) for i in places]
        found.append(Gallery(title, among if shown else f"{among} There are none.", shown))
    return found


def _caption(asked: Asked, place: int, names: Sequence[str]) -> str:
    answer, truth = int(asked.probabilities[place].argmax()), int(asked.labels[place])
    known = "right" if answer == truth else f"is {names[truth]}"
    return f"{names[answer]} {100 * asked.certainty[place]:.1f} %, {known}"


def _data(picture: NDArray[np.generic] | None) -> str:
    """A small picture inside of the page: as it is where it is small, else as a JPEG."""
    if picture is None:  # damaged since it was asked about
        return "data:,"
    pixels = picture.astype(np.uint8)
    image = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
    large = max(image.size) > SIDE // 2
    image.thumbnail((SIDE, SIDE))
    file = io.BytesIO()
    image.save(file, "JPEG" if large else "PNG", quality=85)
    kind = "jpeg" if large else "png"
    return f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode()}"
