"""Teacher and student on the test part: who is right where, and which errors the student does not make."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.data.sources.dataset import Dataset
from metapl.report.blocks import Cell, Gallery, Picture, Plain, Table, Text
from metapl.report.labels import Noted
from metapl.report.small_pictures import as_data, example


class Answers(NamedTuple):
    """One network's, to some examples of the test part."""

    rows: NDArray[np.int64]
    classes: NDArray[np.int64]
    sure: NDArray[np.float64]

    def at(self, rows: NDArray[np.int64]) -> "Answers":
        """Those to these examples, which must be among its own."""
        places = np.searchsorted(self.rows, rows)
        return Answers(rows, self.classes[places], self.sure[places])


def beside(noted: Noted, student: Answers, dataset: Dataset, seed: int, each: int) -> list[Plain]:
    """Hold the teacher's answers, as it left them, against those of the run's final weights."""
    told = noted.teacher
    if told is None:
        return []
    names = dataset.class_names
    if (told.of, told.seed) != (len(dataset.test), seed) or told.classes.min() < 0 or told.classes.max() >= len(names):
        return [Text("The teacher's answers are not of these data: they are left out.", "warning")]
    rows = np.intersect1d(told.rows, student.rows)
    ours, theirs = student.at(rows), Answers(told.rows, told.classes, told.sure).at(rows)
    right = dataset.test_labels[rows]
    student_right, teacher_right = ours.classes == right, theirs.classes == right
    found = np.flatnonzero(student_right & ~teacher_right)
    shown = [
        Picture(
            as_data(example(dataset.test, int(rows[i]))),
            f"teacher {_said(theirs, i, dataset)}, student {_said(ours, i, dataset)}, right",
        )
        for i in found[np.argsort(-theirs.sure[found], kind="stable")][:each]
    ]
    many = f"{len(found):,} of {len(rows):,} test examples; the teacher's most certain errors first, seed {seed}."
    return [
        _cells(teacher_right, student_right, told.step),
        Gallery("Errors of the teacher that the student does not make", many, shown),
    ]


def _said(answers: Answers, place: int, dataset: Dataset) -> str:
    return f"{dataset.class_names[int(answers.classes[place])]} {100 * answers.sure[place]:.1f} %"


def _cells(teacher: NDArray[np.bool_], student: NDArray[np.bool_], step: int) -> Table:
    """The four cells."""

    def cell(those: NDArray[np.bool_]) -> Cell:
        return Cell(f"{those.sum():,} ({100 * those.mean():.1f} %)", float(those.sum()))

    rows = [
        [Cell("teacher right"), cell(teacher & student), cell(teacher & ~student), cell(teacher)],
        [Cell("teacher wrong"), cell(~teacher & student), cell(~teacher & ~student), cell(~teacher)],
    ]
    title = f"Teacher (after step {step:,} of its stage) and student (final weights) on the test part"
    return Table(title, ("test examples", "student right", "student wrong", "together"), rows)
