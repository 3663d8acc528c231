"""The pseudo labels that changed most during training, out of pseudo_labels.jsonl."""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.data.sources.dataset import Dataset
from metapl.report.blocks import Gallery, Picture, Plain, Text
from metapl.report.small_pictures import as_data, example
from metapl.report.timeline import timeline
from metapl.runs.label_paths import FILE, MOST_TEST, evenly_spaced

MOST_BYTES = 1 << 26  # of a file that is far longer than runs write it
MOST_WORDS = 6  # classes of a path that are told one after another
OFTEN = 5  # changes
NOTHING = Text(
    f"No pseudo labels over time: the run has no {FILE}. It is of points, or of a method whose labels do not "
    "change, was begun before runs noted them, or has record_labels = 0.",
    "note",
)


class Moment(NamedTuple):
    """Whoever labels, asked at one time."""

    seed: int
    stage: int
    step: int
    by: str  # teacher or network
    of: int  # examples that there are, of which these are some at equal distances
    classes: NDArray[np.int64]
    sure: NDArray[np.float64]

    @property
    def rows(self) -> NDArray[np.int64]:
        """Which examples it was asked about."""
        return evenly_spaced(self.of, len(self.classes))


class Noted(NamedTuple):
    """What a run has noted."""

    moments: Sequence[Moment]  # the same unlabelled examples again and again
    teacher: Moment | None  # its answers to the test part, at the end of its last stage


def read(run: Path) -> Noted:
    """Read what there is; lines that are half written or damaged are left out."""
    try:
        with (run / FILE).open("rb") as file:
            lines = file.read(MOST_BYTES).splitlines()
    except OSError:
        lines = []
    found = [(part, moment) for line in lines if (one := _moment(line)) is not None for part, moment in [one]]
    moments = [moment for part, moment in found if part == "unlabeled"]
    tests = [moment for part, moment in found if part == "test"]
    alike = [one for one in moments if (one.of, len(one.classes)) == (moments[0].of, len(moments[0].classes))]
    return Noted(alike, tests[-1] if tests else None)


def _moment(line: bytes) -> tuple[str, Moment] | None:
    try:
        told = json.loads(line)
        counts = [int(told[name]) for name in ("seed", "stage", "step")]
        classes, sure = (np.array(told[name], np.int64) for name in ("classes", "thousandths"))
        moment = Moment(counts[0], counts[1], counts[2], str(told["by"]), int(told["of"]), classes, sure / 1000)
        good = classes.ndim == 1 and 0 < len(classes) == len(sure) <= min(moment.of, MOST_TEST)
        return (str(told["part"]), moment) if good and len(moment.rows) == len(classes) else None
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def paths(noted: Noted, dataset: Dataset, stage_steps: Sequence[int], each: int) -> list[Plain]:
    """The pictures whose labels changed most, each with its path."""
    if not noted.moments:
        return [NOTHING]
    first, names = noted.moments[0], dataset.class_names
    classes = np.stack([moment.classes for moment in noted.moments])  # [moments, pictures]
    sure = np.stack([moment.sure for moment in noted.moments])
    if first.of != len(dataset.unlabeled) or classes.min() < 0 or classes.max() >= len(names):
        return [Text(f"No pseudo labels over time: {FILE} is not of these data.", "warning")]
    truth = dataset.truth[first.rows] if dataset.truth is not None else np.full(len(first.rows), -1)
    changes = (classes[1:] != classes[:-1]).sum(0)
    order = np.lexsort((sure.mean(0), -changes))
    steps = [sum(stage_steps[: moment.stage]) + moment.step for moment in noted.moments]
    shown = []
    for place in (int(one) for one in order[:each] if changes[one]):
        path, right = classes[:, place], int(truth[place])
        told = f"{_path(path, names)} ({_times(int(changes[place]))})" + (f", is {names[right]}" if right >= 0 else "")
        drawing = timeline(path, sure[:, place], steps, names, right)
        shown.append(Picture(as_data(example(dataset.unlabeled, int(first.rows[place]))), told, drawing))
    return [Gallery("Pseudo labels that changed most", _about(noted, changes, classes, truth), shown)]


def _about(noted: Noted, changes: NDArray[Any], classes: NDArray[np.int64], truth: NDArray[Any]) -> str:
    first, count = noted.moments[0], len(changes)
    whom = (
        f"{count:,} of {first.of:,} unlabelled pictures, at equal distances"
        if count < first.of
        else f"all {count:,} unlabelled pictures"
    )
    told = [
        f"The {first.by} was asked about {whom}, as they are, {len(classes)} times on the way (seed {first.seed}).",
        f"{(changes > 0).sum():,} of them changed their label, {(changes >= OFTEN).sum():,} five times or more.",
    ]
    if (known := truth >= 0).any():
        right = 100 * (classes[:, known] == truth[known]).mean(1)
        told.append(f"Right, where the truth is known: {right[0]:.1f} % at first, {right[-1]:.1f} % at last.")
    return " ".join(told)


def _path(path: NDArray[np.int64], names: Sequence[str]) -> str:
    words = [names[int(one)] for one, _ in itertools.groupby(path)]
    if len(words) > MOST_WORDS:
        words = [*words[: MOST_WORDS - 2], "…", words[-1]]
    return " → ".join(words)


def _times(count: int) -> str:
    return "1 change" if count == 1 else f"{count} changes"
