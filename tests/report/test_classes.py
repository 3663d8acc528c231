"""Charts and tables of classes, for few classes and for many."""

import numpy as np
import pytest

from metapl.report import classes, read
from metapl.report.blocks import Figure

from .synthetic_runs import make


def test_long_names_are_shortened(tmp_path):
    run = make(tmp_path / "run", accuracies={0: 0.5})
    names = np.array([f"{i}" + "x" * 50_000 for i in range(3)])
    np.savez(run / "confusion.npz", counts=np.eye(3, dtype=np.int64)[None], class_names=names)
    (loaded,) = read.read_runs([run])
    assert loaded.class_names[1] == "1" + "x" * 78 + "…"


@pytest.mark.parametrize("count", [3, 20, 21, 150])
def test_the_confusion_matrix_is_drawn_and_its_mistakes_listed(tmp_path, count):
    (loaded,) = read.read_runs([make(tmp_path / "run", accuracies={0: 0.5})])
    counts = 9 * np.eye(count, dtype=np.int64)
    counts[1, 2] = 7
    names = [f"class {i}" for i in range(count)]
    bars, matrix, mistakes = classes.classes(
        read.ReportedRun(**vars(loaded) | {"confusion": counts, "class_names": names})
    )
    assert "Worst: class 1 (56.2 %)" in bars.description
    assert isinstance(matrix, Figure)
    assert ("<image" in matrix.svg) == (count > 20)
    assert "class 1 predicted as class 2, 7 times" in matrix.description
    assert [[cell.text for cell in row] for row in mistakes.rows] == [["class 1", "class 2", "7", "43.8"]]


def test_of_many_classes_more_mistakes_are_listed(tmp_path):
    (loaded,) = read.read_runs([make(tmp_path / "run", accuracies={0: 0.5})])
    for count, listed in ((20, 10), (21, 25)):
        names = [str(i) for i in range(count)]
        *_, mistakes = classes.classes(
            read.ReportedRun(**vars(loaded) | {"confusion": np.ones((count, count), np.int64), "class_names": names})
        )
        assert len(mistakes.rows) == listed
