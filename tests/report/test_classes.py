"""Which classes are told of, however many there are."""

import numpy as np
import pytest

from metapl.report import classes, read
from metapl.report.blocks import Figure, Text

from .some_runs import make


def test_endless_names_do_not_fill_the_page(tmp_path):
    run = make(tmp_path / "run", accuracies={0: 0.5})
    names = np.array([f"{i}" + "x" * 50_000 for i in range(3)])
    np.savez(run / "confusion.npz", counts=np.eye(3, dtype=np.int64)[None], class_names=names)
    (loaded,) = read.find([run])
    assert loaded.class_names[1] == "1" + "x" * 78 + "…"


@pytest.mark.parametrize("count", [3, 20, 21, 150])
def test_the_confusion_matrix_is_drawn_or_said_to_be_too_large(tmp_path, count):
    (loaded,) = read.find([make(tmp_path / "run", accuracies={0: 0.5})])
    counts = 9 * np.eye(count, dtype=np.int64)
    counts[1, 2] = 7
    names = [f"class {i}" for i in range(count)]
    bars, matrix, mistakes = classes.classes(read.Loaded(**vars(loaded) | {"confusion": counts, "class_names": names}))
    assert "Worst: class 1 (56.2 %)" in bars.description
    assert isinstance(matrix, Figure if count <= 20 else Text)
    told = matrix.description if isinstance(matrix, Figure) else matrix.text
    assert "class 1 taken for class 2, 7 times" in told
    assert isinstance(matrix, Figure) or f"{count} classes are too many" in told
    assert [[cell.text for cell in row] for row in mistakes.rows] == [["class 1", "class 2", "7", "43.8"]]
