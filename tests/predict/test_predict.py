"""`metapl predict`: every picture has its row, whatever it is called and whatever it holds."""

import csv
import io
import json
import os
from pathlib import Path

import numpy as np
import pytest

from metapl.evaluate.predictor import load
from metapl.inference.batches import PREDICTION
from metapl.predict.predictions import best
from metapl.predict.text import cell, on_a_line, path_cell
from metapl.system.lock import take
from tests.exit_code import exit_code
from tests.tiny_run import NAMES, make_run, picture

ODD = ("=1+1.png", "new\nline.png", 'quo"te,.png', "ünï 犬.png", "<script>.png", "esc\x1b[31m.png", "bad\udcff.png")


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    return make_run(tmp_path_factory.mktemp("run"))


@pytest.fixture
def photos(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for number, name in enumerate(ODD):
        picture(Path("photos") / name, number, (9, 7))
    Path("photos/broken.jpg").write_bytes(b"no picture")
    return Path("photos")


def predict(run: Path, *words: str) -> int:
    return exit_code("predict", str(run), *words)


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_a_csv_has_a_row_for_each_picture_in_order(run, photos, capsys):
    assert predict(run, "photos", "nothere.png", "--csv", "out/a.csv") == 0
    found = rows(Path("out/a.csv").read_text("utf-8"))
    expected = sorted([*ODD, "broken.jpg"])
    assert [row["path"] for row in found] == [
        *(f"photos/{name}".replace("\udcff", "\\udcff") for name in expected),
        "nothere.png",
    ]
    loaded = load(run)
    for name, row in zip(expected, found, strict=False):
        if name == "broken.jpg":
            assert row["class"] == row["probability"] == row["class_2"] == ""
            assert "not a picture" in row["error"]
            continue
        answer = loaded.probabilities(loaded.read(photos / name)[None])[0]
        order = np.argsort(-answer)
        assert row["class"] == cell(NAMES[order[0]])
        assert int(row["class_index"]) == order[0]
        assert float(row["probability"]) == pytest.approx(answer[order[0]], abs=2e-6)
        assert (row["class_3"], row["error"]) == (cell(NAMES[order[2]]), "")
    assert "No such file" in found[-1]["error"]
    told = capsys.readouterr()
    assert told.out == ""
    assert "7 pictures predicted" in told.err
    assert "2 could not be read" in told.err
    assert os.listdir("out") == ["a.csv"]


def test_a_csv_that_is_there_is_left_alone(run, photos, capsys):
    Path("mine.csv").write_text("precious")
    Path("other.csv.partial").write_text("precious")
    assert predict(run, "photos", "--csv", "mine.csv") == 2
    assert predict(run, "photos", "--csv", "other.csv") == 2
    assert Path("mine.csv").read_text() == Path("other.csv.partial").read_text() == "precious"
    assert "not overwritten" in capsys.readouterr().err


def test_what_was_interrupted_does_not_look_whole(run, photos, monkeypatch):
    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("metapl.predict.predictions.predict_batch", stopped)
    assert predict(run, "photos", "--csv", "a.csv") == 130
    assert not Path("a.csv").exists()
    assert Path("a.csv.partial").exists()


def test_the_same_command_begins_a_csv_again_that_a_killed_one_has_left(run, photos, capsys):
    assert predict(run, "photos", "--csv", "whole.csv") == 0
    for left in ("", "path,cl", "path,class,class_index,probability,error\nphotos/a.png,c"):
        Path("a.csv.partial").write_text(left)
        assert predict(run, "photos", "--csv", "a.csv") == 0
        assert Path("a.csv").read_bytes() == Path("whole.csv").read_bytes()
        assert not Path("a.csv.partial").exists()
        Path("a.csv").unlink()
    with Path("b.csv.partial").open("w") as file:
        assert take(file)
        assert predict(run, "photos", "--csv", "b.csv") == 2
    assert "another prediction is writing b.csv.partial" in " ".join(capsys.readouterr().err.split())


def test_json_has_an_object_on_each_line(run, photos, capsys):
    assert predict(run, "photos", "--json", "--top-k", "2") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {os.fsencode(line["path"]) for line in lines} == {os.fsencode(path) for path in photos.iterdir()}
    good = [line for line in lines if "error" not in line]
    assert len(good) == len(ODD)
    assert all(len(line["top"]) == 2 and line["class"] in NAMES for line in good)


def test_the_table_has_one_printable_line_for_each(run, photos, capsys):
    assert predict(run, "photos") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(ODD) + 1
    assert all(line.isprintable() for line in lines)
    assert any("%  " in line and "photos/ünï 犬.png" in line for line in lines)


def test_many_pictures_are_a_stream(run, photos, monkeypatch, capsys):
    monkeypatch.setattr("metapl.evaluate.predictor.PREDICTION", PREDICTION._replace(examples=2))
    assert predict(run, *["photos"] * 3, "--csv", "-") == 0
    found = rows(capsys.readouterr().out)
    assert [row["path"] for row in found[:8]] == [row["path"] for row in found[8:16]]
    assert len(found) == 3 * (len(ODD) + 1)
    assert found[:8] == found[16:]


def test_nothing_readable_is_an_error_and_so_are_wrong_flags(run, photos, capsys):
    assert predict(run, "photos/broken.jpg") == 1
    assert predict(run) == 2
    assert predict(run, "photos", "--top-k", "0") == 2
    assert predict(run, "photos", "--csv", "a.csv", "--json") == 2
    assert predict(Path("nowhere"), "photos") == 2
    assert predict(run, "photos", "--csv", "photos/broken.jpg/a.csv") == 2
    assert "Traceback" not in capsys.readouterr().err


def test_the_most_probable_come_first_and_equal_ones_in_order():
    assert best(np.array([0.1, 0.4, 0.4, 0.1], np.float32), 3) == [1, 2, 0]


def test_no_cell_is_a_formula_and_paths_still_open():
    assert path_cell(Path("=x.png")) == "./=x.png"
    assert path_cell(Path("/a/=x.png")) == "/a/=x.png"
    assert [cell(text) for text in ("=a", "+a", "-a", "@a", "\ta", "-1", "+1.5", "a=b")] == [
        "'=a", "'+a", "'-a", "'@a", "'\ta", "-1", "+1.5", "a=b",
    ]  # fmt: skip
    assert on_a_line("a\n\x1b\udcffé犬") == "a\\n\\x1b\\udcffé犬"
