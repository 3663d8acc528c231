"""Teacher and student on the test part: which examples each gets right, and which errors only the teacher makes."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.data.sources.dataset import Dataset
from metapl.report.blocks import Cell, Gallery, GalleryPicture, Plain, Table, Text
from metapl.report.labels import RecordedLabels
from metapl.report.small_pictures import as_data, example


class PredictedClasses(NamedTuple):
    """The classes that one network predicts for some test examples."""

    rows: NDArray[np.int64]
    classes: NDArray[np.int64]
    sure: NDArray[np.float64]

    def at(self, rows: NDArray[np.int64]) -> "PredictedClasses":
        """The predictions for these examples, which must be among its own."""
        places = np.searchsorted(self.rows, rows)
        return PredictedClasses(rows, self.classes[places], self.sure[places])


def compare_with_student(
    noted: RecordedLabels, student: PredictedClasses, dataset: Dataset, seed: int, each: int
) -> list[Plain]:
    """Compare the teacher's recorded predictions with those of the run's final weights."""
    teacher, classes = noted.teacher, len(dataset.class_names)
    if teacher is None:
        return []
    foreign = (teacher.of, teacher.seed) != (len(dataset.test), seed)
    if foreign or teacher.classes.min() < 0 or teacher.classes.max() >= classes:
        return [Text("The teacher's predictions were recorded for other data: they are left out.", "warning")]
    rows = np.intersect1d(teacher.rows, student.rows)
    ours, theirs = student.at(rows), PredictedClasses(teacher.rows, teacher.classes, teacher.sure).at(rows)
    right = dataset.test_labels[rows]
    student_right, teacher_right = ours.classes == right, theirs.classes == right
    corrected = np.flatnonzero(student_right & ~teacher_right)
    shown = [
        GalleryPicture(
            as_data(example(dataset.test, int(rows[i]))),
            f"teacher {_words(theirs, i, dataset)}, student {_words(ours, i, dataset)}, right",
        )
        for i in corrected[np.argsort(-theirs.sure[corrected], kind="stable")][:each]
    ]
    many = f"{len(corrected):,} of {len(rows):,} test examples; the teacher's most certain errors first, seed {seed}."
    return [
        _cells(teacher_right, student_right, teacher.step),
        Gallery("Errors of the teacher that the student does not make", many, shown),
    ]


def _words(predicted: PredictedClasses, place: int, dataset: Dataset) -> str:
    return f"{dataset.class_names[int(predicted.classes[place])]} {100 * predicted.sure[place]:.1f} %"


def _cells(teacher: NDArray[np.bool_], student: NDArray[np.bool_], step: int) -> Table:
    """A table of how often both, one, or none of them is right."""

    def cell(those: NDArray[np.bool_]) -> Cell:
        return Cell(f"{those.sum():,} ({100 * those.mean():.1f} %)", float(those.sum()))

    rows = [
        [Cell("teacher right"), cell(teacher & student), cell(teacher & ~student), cell(teacher)],
        [Cell("teacher wrong"), cell(~teacher & student), cell(~teacher & ~student), cell(~teacher)],
    ]
    title = f"Teacher (after step {step:,} of its stage) and student (final weights) on the test part"
    return Table(title, ("test examples", "student right", "student wrong", "together"), rows)
