"""Labels that a person has given since the fit before."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from metapl.data.sources.source import Files, InMemory, Part, Source
from metapl.fit import after, label_file
from metapl.fit.label_file import Decision
from metapl.fit.roles import assign_roles, keep_held_out
from metapl.schema import ConfigError


def files(place: Path, *names: str) -> Files:
    return Files(tuple(place / name for name in names), place)


@pytest.fixture
def source(tmp_path) -> Source:
    labeled = Part(files(tmp_path, "a.png", "b.png"), np.array([0, 1], np.int32))
    unlabeled = Part(files(tmp_path, "c.png", "d.png", "e.png"), np.full(3, -1, np.int32))
    return Source({"labeled": labeled, "unlabeled": unlabeled}, ("cat", "dog"))


@pytest.fixture
def folder(tmp_path) -> Path:
    """A fit that was measured on b.png."""
    out = tmp_path / "before"
    out.mkdir()
    (out / "fit.json").write_text("{}")
    row = {"name": "linear", "title": "logistic regression", "accuracy": 0.75, "low": 0.5, "high": 0.9}
    (out / "verdict.json").write_text(json.dumps({"recommended": "linear", "ladder": [row], "labels": 2}))
    with (out / "pictures.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [("path", "label", "split"), (tmp_path / "a.png", "cat", "labeled"), (tmp_path / "b.png", "dog", "test")]
        )
    return out


def names(part: Part) -> list[str]:
    return [Path(part.images.name(row)).name for row in range(len(part.images))]


def test_new_labels_move_pictures_and_what_shows_no_class_is_left_out(source, folder, tmp_path):
    label_file.add(folder / "labels.csv", str(tmp_path / "d.png"), Decision("dog", "label"))
    label_file.add(folder / "labels.csv", str(tmp_path / "e.png"), Decision("", "none_of_these"))
    before = after.read(folder)
    assert before.held_out == {str(tmp_path / "b.png")}
    assert before.history == [{"labels": 2, "title": "logistic regression", "accuracy": 0.75, "low": 0.5, "high": 0.9}]
    new, remark = after.with_labels(source, before)
    assert (names(new.parts["labeled"]), new.parts["labeled"].labels.tolist()) == (
        ["a.png", "b.png", "d.png"],
        [0, 1, 1],
    )
    assert names(new.parts["unlabeled"]) == ["c.png"]
    assert remark.startswith("labelled since the fit before: 1 picture; left out, because")


def test_labels_that_do_not_fit_are_refused(source, folder, tmp_path):
    with pytest.raises(ConfigError, match="has no new labels: label some pictures first, with metapl label"):
        after.read(folder)
    with pytest.raises(ConfigError, match="is not the folder of a metapl fit"):
        after.read(tmp_path)
    label_file.add(folder / "labels.csv", str(tmp_path / "d.png"), Decision("horse", "label"))
    with pytest.raises(ConfigError, match="'horse', which is not one of the classes"):
        after.with_labels(source, after.read(folder))
    arrays = Part(InMemory(np.zeros((1, 2, 2, 3), np.uint8), "unlabeled"), np.array([-1], np.int32))
    with pytest.raises(ConfigError, match="needs unlabelled pictures in files"):
        after.with_labels(Source({**source.parts, "unlabeled": arrays}, source.class_names), after.read(folder))


def test_the_same_pictures_measure_both_fits():
    rows = assign_roles(np.repeat([0, 1], 10).astype(np.int32), np.arange(20), np.zeros(0, np.int32), False, 0)
    held_out = np.isin(np.arange(20), [3, 13])
    kept = keep_held_out(rows, held_out)
    assert (kept.test.tolist(), sorted({*kept.labeled.tolist(), 3, 13})) == ([3, 13], list(range(20)))
    assert keep_held_out(rows, np.zeros(20, bool)) is rows
