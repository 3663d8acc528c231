"""The pseudo labels that changed most during training, out of pseudo_labels.jsonl."""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.data.sources.dataset import Dataset
from metapl.report.blocks import Gallery, GalleryPicture, Plain, Text
from metapl.report.small_pictures import as_data, example
from metapl.report.timeline import timeline
from metapl.runs.label_paths import FILE, MOST_TEST, evenly_spaced

MOST_BYTES = 1 << 26  # that are read; runs write far shorter files
MOST_WORDS = 6  # classes of a path that a caption lists
OFTEN = 5  # changes
NOTHING = Text(
    f"No pseudo labels over time: the run has no {FILE}. It was trained on points, or by a method whose labels do not "
    "change, or by an old version of metapl, or with record_labels = 0.",
    "note",
)


class Moment(NamedTuple):
    """The labels that the teacher or network gave at one step."""

    seed: int
    stage: int
    step: int
    by: str  # teacher or network
    of: int  # examples in all; the labelled ones are some of them, at equal distances
    classes: NDArray[np.int64]
    sure: NDArray[np.float64]

    @property
    def rows(self) -> NDArray[np.int64]:
        """Which examples were labelled."""
        return evenly_spaced(self.of, len(self.classes))


class RecordedLabels(NamedTuple):
    """The labels that a run has recorded."""

    moments: Sequence[Moment]  # always for the same unlabelled examples
    teacher: Moment | None  # the teacher's predictions for the test examples, at the end of its last stage


def read(run: Path) -> RecordedLabels:
    """Read a run's recorded labels; half-written and damaged lines are left out."""
    try:
        with (run / FILE).open("rb") as file:
            lines = file.read(MOST_BYTES).splitlines()
    except OSError:
        lines = []
    records = [record for line in lines if (record := _moment(line)) is not None]
    moments = [moment for part, moment in records if part == "unlabeled"]
    tests = [moment for part, moment in records if part == "test"]
    same = [moment for moment in moments if _examples(moment) == _examples(moments[0])]
    return RecordedLabels(same, tests[-1] if tests else None)


def _examples(moment: Moment) -> tuple[int, int]:
    """Equal for moments that are about the same examples."""
    return moment.of, len(moment.classes)


def _moment(line: bytes) -> tuple[str, Moment] | None:
    try:
        record = json.loads(line)
        counts = [int(record[name]) for name in ("seed", "stage", "step")]
        classes, sure = (np.array(record[name], np.int64) for name in ("classes", "thousandths"))
        moment = Moment(counts[0], counts[1], counts[2], str(record["by"]), int(record["of"]), classes, sure / 1000)
        good = classes.ndim == 1 and 0 < len(classes) == len(sure) <= min(moment.of, MOST_TEST)
        return (str(record["part"]), moment) if good and len(moment.rows) == len(classes) else None
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def paths(noted: RecordedLabels, dataset: Dataset, stage_steps: Sequence[int], each: int) -> list[Plain]:
    """The pictures whose labels changed most, each with its labels over time."""
    if not noted.moments:
        return [NOTHING]
    first, names = noted.moments[0], dataset.class_names
    classes = np.stack([moment.classes for moment in noted.moments])  # [moments, pictures]
    sure = np.stack([moment.sure for moment in noted.moments])
    if first.of != len(dataset.unlabeled) or classes.min() < 0 or classes.max() >= len(names):
        return [Text(f"No pseudo labels over time: {FILE} was written for other data.", "warning")]
    truth = dataset.truth[first.rows] if dataset.truth is not None else np.full(len(first.rows), -1)
    changes = (classes[1:] != classes[:-1]).sum(0)
    order = np.lexsort((sure.mean(0), -changes))
    steps = [sum(stage_steps[: moment.stage]) + moment.step for moment in noted.moments]
    shown = []
    for place in (int(index) for index in order[:each] if changes[index]):
        path, right = classes[:, place], int(truth[place])
        caption = f"{_path(path, names)} ({_times(int(changes[place]))})"
        caption += f", is {names[right]}" if right >= 0 else ""
        drawing = timeline(path, sure[:, place], steps, names, right)
        shown.append(GalleryPicture(as_data(example(dataset.unlabeled, int(first.rows[place]))), caption, drawing))
    return [Gallery("Pseudo labels that changed most", _about(noted, changes, classes, truth), shown)]


def _about(noted: RecordedLabels, changes: NDArray[Any], classes: NDArray[np.int64], truth: NDArray[Any]) -> str:
    first, count = noted.moments[0], len(changes)
    which = (
        f"{count:,} of {first.of:,} unlabelled pictures, at equal distances"
        if count < first.of
        else f"all {count:,} unlabelled pictures"
    )
    sentences = [
        f"The {first.by} labelled {which}, without augmentation, {len(classes)} times in all (seed {first.seed}).",
        f"{(changes > 0).sum():,} of them changed their label, {(changes >= OFTEN).sum():,} five times or more.",
    ]
    if (known := truth >= 0).any():
        right = 100 * (classes[:, known] == truth[known]).mean(1)
        sentences.append(f"Right, where the truth is known: {right[0]:.1f} % at first, {right[-1]:.1f} % at last.")
    return " ".join(sentences)


def _path(path: NDArray[np.int64], names: Sequence[str]) -> str:
    words = [names[int(label)] for label, _ in itertools.groupby(path)]
    if len(words) > MOST_WORDS:
        words = [*words[: MOST_WORDS - 2], "…", words[-1]]
    return " → ".join(words)


def _times(count: int) -> str:
    return "1 change" if count == 1 else f"{count} changes"
