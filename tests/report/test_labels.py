"""Labels over time, and the teacher's errors, from the lines that a run has written."""

import json

import numpy as np
import pytest

from metapl.data.sources.dataset import Dataset
from metapl.report import html, labels, markdown, teacher
from metapl.report.blocks import Gallery, Table, Text
from metapl.report.labels import Moment, RecordedLabels
from metapl.report.teacher import PredictedClasses
from metapl.runs.label_paths import FILE

from .synthetic_runs import NASTY

NAMES = (NASTY, "cat", "dog")


def moment(step, classes, of=5, sure=None, by="teacher", stage=0) -> Moment:
    sure = np.full(len(classes), 0.5) if sure is None else np.array(sure)
    return Moment(0, stage, step, by, of, np.array(classes), sure)


@pytest.fixture
def dataset() -> Dataset:
    pictures = np.random.default_rng(0).integers(0, 256, (5, 4, 4, 1), np.uint8)
    right = np.array([0, 1, 2, 1, 0], np.int32)
    return Dataset(
        pictures[:1], right[:1], pictures, pictures, right, NAMES, truth=np.array([2, 2, -1, 0, 0], np.int32)
    )


@pytest.fixture
def noted() -> RecordedLabels:
    paths = [[0, 2, 1, 0, 0], [0, 1, 2, 0, 0], [0, 2, 1, 2, 0], [0, 2, 2, 2, 0]]
    return RecordedLabels(
        [moment(10 * i, path) for i, path in enumerate(paths, 1)],
        moment(40, [1, 1, 1, 2, 2], sure=[0.2] * 3 + [0.3, 0.9]),
    )


def test_the_pictures_that_changed_most_come_first_with_their_paths(dataset, noted):
    (found,) = labels.paths(noted, dataset, [100], each=12)
    assert isinstance(found, Gallery)
    told = [picture.caption for picture in found.pictures]
    assert told == [
        "cat → dog → cat → dog (3 changes)",
        "dog → cat → dog (2 changes), is dog",
        f"{NASTY} → dog (1 change), is {NASTY}",
    ]
    assert "all 5 unlabelled pictures, without augmentation, 4 times" in found.description
    assert "3 of them changed their label, 0 five times or more" in found.description
    assert "75.0 % at first, 50.0 % at last" in found.description  # of the four whose truth is known
    (first,) = labels.paths(noted, dataset, [100], each=1)[0].pictures
    assert first.drawing.count('class="bar"') == 4  # the truth is not known
    assert found.pictures[1].drawing.count('class="right"') == 2
    assert found.pictures[1].drawing.count('class="wrong"') == 1
    assert "up to step 20" in found.pictures[1].drawing


def test_a_long_path_is_shortened_and_rare_classes_share_a_row():
    path = np.array([0, 1, 2, 3, 4, 5, 6, 0, 1, 2])
    names = [str(i) for i in range(9)]
    assert labels._path(path, names) == "0 → 1 → 2 → 3 → … → 2"
    drawing = labels.timeline(path, np.full(10, 0.9), list(range(10)), names, 8)
    assert "others" in drawing
    assert "8 ✓" in drawing
    assert drawing.count("<rect") == 10


def test_labels_of_other_data_are_not_shown(dataset, noted):
    for wrong in (dataset._replace(unlabeled=dataset.unlabeled[:4]), dataset._replace(class_names=NAMES[:2])):
        (said,) = labels.paths(noted, wrong, [100], 12)
        assert isinstance(said, Text)
        assert "for other data" in said.text
    assert labels.paths(RecordedLabels([], None), dataset, [100], 12) == [labels.NOTHING]


@pytest.mark.parametrize(
    "line", ["", "no json", "[1]", '{"seed": 0}', "[" * 100_000, '{"classes": [1, 2], "thousandths": [1]', "\0"]
)
def test_damaged_lines_are_left_out(tmp_path, line):
    good = {"seed": 0, "stage": 0, "step": 1, "by": "teacher", "of": 5, "classes": [0, 1], "thousandths": [500, 999]}
    bad = [{"classes": [0]}, {"classes": [[0, 1]]}, {"of": 1}, {"of": "x"}, {"thousandths": None}, {"of": 10**30}]
    lines = [
        good | {"part": "unlabeled"},
        *(good | {"part": "unlabeled"} | one for one in bad),
        good | {"part": "test"},
    ]
    (tmp_path / FILE).write_text("\n".join([*map(json.dumps, lines), line]))
    found = labels.read(tmp_path)
    assert len(found.moments) == 1
    assert found.moments[0].rows.tolist() == [0, 4]
    assert found.moments[0].sure.tolist() == [0.5, 0.999]
    assert found.teacher is not None
    assert labels.read(tmp_path / "nowhere") == ([], None)


def test_the_table_of_both_and_the_errors_that_only_the_teacher_makes(dataset, noted):
    student = PredictedClasses(
        np.arange(5), np.array([0, 1, 2, 1, 1]), np.full(5, 0.75)
    )  # right: 1 1 1 1 0; teacher: 0 1 0 0 0
    cells, errors = teacher.compare_with_student(noted, student, dataset, 0, each=3)
    assert isinstance(cells, Table)
    assert [[cell.value for cell in row[1:]] for row in cells.rows] == [[1, 0, 1], [3, 1, 4]]
    assert [picture.caption for picture in errors.pictures] == [
        "teacher dog 30.0 %, student cat 75.0 %, right",
        f"teacher cat 20.0 %, student {NASTY} 75.0 %, right",
        "teacher cat 20.0 %, student dog 75.0 %, right",
    ]
    assert "3 of 5 test examples" in errors.description


def test_a_teacher_of_other_data_is_left_out(dataset, noted):
    student = PredictedClasses(np.arange(5), np.zeros(5, int), np.ones(5))
    assert teacher.compare_with_student(RecordedLabels([], None), student, dataset, 0, 3) == []
    (said,) = teacher.compare_with_student(noted, student, dataset, 1, 3)
    assert "for other data" in said.text
    some = PredictedClasses(np.array([1, 3]), np.array([1, 1]), np.ones(2))  # the others could not be read
    assert teacher.compare_with_student(noted, some, dataset, 0, 3)[0].rows[0][3].text == "1 (50.0 %)"


def test_in_a_browser_each_picture_has_its_caption(page, dataset, noted, tmp_path):
    student = PredictedClasses(np.arange(5), np.array([0, 0, 2, 1, 0]), np.full(5, 0.75))
    blocks = [*labels.paths(noted, dataset, [100], 12), *teacher.compare_with_student(noted, student, dataset, 0, 12)]
    (tmp_path / "report.html").write_text(html.page("t", blocks), "utf-8")
    for width in (390, 1280):
        page.set_width(width)
        page.open((tmp_path / "report.html").as_uri())
        assert not page.scrolls_sideways()
    alts = page.evaluate("[...document.images].map((one) => one.alt)")
    captions = [picture.caption for block in blocks if isinstance(block, Gallery) for picture in block.pictures]
    assert alts == captions
    assert page.evaluate("[...document.images].every((one) => one.complete && one.naturalWidth > 0)")
    assert page.evaluate("document.querySelectorAll('.drawn svg').length") == 3
    assert page.errors == []
    assert page.hosts == {""}
    assert "cat → dog → cat → dog (3 changes)" in markdown.page("t", blocks)
