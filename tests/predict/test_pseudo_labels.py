"""`metapl pseudo-label`: a row for each picture, as `metapl data select` takes them; what was stopped goes on."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from metapl.cli import main as cli
from metapl.data.audit.selection import Rules, select, summarize
from metapl.data.reading.probabilities import shape
from metapl.evaluate.predictor import load
from metapl.inference.batches import PREDICTION
from metapl.predict import predictions
from metapl.predict.predictions import predict_batch
from metapl.weights import Example
from tests.exit_code import exit_code
from tests.tiny_run import make_run, picture


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    return make_run(tmp_path_factory.mktemp("run"))


@pytest.fixture
def photos(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for number in range(7):
        picture(Path("photos") / f"{number}.png", number)
    Path("photos/3.png").write_bytes(b"no picture")
    picture(Path("photos/more/new\nline.png"), 9)
    return Path("photos")


def give(run: Path, *words: str) -> int:
    return exit_code("pseudo-label", str(run), *words)


def test_rows_are_the_predictions_and_names_are_the_paths(run, photos, capsys):
    assert give(run, "photos", "--out", "out/p.npy") == 0
    rows = np.load("out/p.npy")
    assert (rows.dtype, rows.shape) == (np.float16, (8, 3))
    loaded = load(run)
    for row, name in ((0, "0.png"), (6, "6.png"), (7, "more/new\nline.png")):
        expected = loaded.probabilities(loaded.read(photos / name)[None])[0]
        np.testing.assert_allclose(rows[row], expected, atol=1e-3)
    assert not rows[3].any()
    assert Path("out/p.txt").read_text().splitlines()[-2:] == ["photos/6.png", "photos/more/new\\nline.png"]
    with open("out/p.errors.csv") as file:
        assert [(error["row"], error["path"]) for error in csv.DictReader(file)] == [("3", "photos/3.png")]
    assert "1 could not be read" in capsys.readouterr().out


@pytest.mark.parametrize("rank", ["each_class", "top_class"])
def test_data_select_takes_them_and_never_keeps_what_could_not_be_read(run, photos, rank):
    assert give(run, "photos") == 0
    path = Path("probabilities.npy")
    assert shape(path) == (8, 3)
    chosen = select(path, Rules(per_class=8, rank=rank))
    assert set(chosen.entries.rows.tolist()) == {0, 1, 2, 4, 5, 6, 7}
    left_out = summarize(chosen, Rules(), None)["left_out"]
    assert left_out["unreadable"] == 1
    assert sum(left_out.values()) == 1
    cli.main(["data", "select", str(path), "--names", "probabilities.txt", "--rank", rank, "--out", "selected"])
    with open("selected/selection.csv") as file:
        assert "photos/3.png" not in {row["path"] for row in csv.DictReader(file)}


def test_rows_of_zeros_are_counted_once_whatever_the_threshold(tmp_path):
    np.save(tmp_path / "p.npy", np.array([[0, 0], [0.4, 0.6], [0.5, 0.5]], np.float16))
    rules = Rules(per_class=9, threshold=0.55)
    left_out = summarize(select(tmp_path / "p.npy", rules), rules, None)["left_out"]
    assert (left_out["below_threshold"], left_out["unreadable"], left_out["not_among_the_most_probable"]) == (1, 1, 0)


def test_what_was_stopped_goes_on_where_it_was(run, photos, monkeypatch, capsys):
    monkeypatch.setattr("metapl.evaluate.predictor.PREDICTION", PREDICTION._replace(examples=2))
    assert give(run, "photos", "--out", "whole.npy") == 0
    asked = []

    def stopping(loaded, some):
        asked.append([read.path.name for read in some])
        if len(asked) == 3:
            raise KeyboardInterrupt
        return predict_batch(loaded, some)

    monkeypatch.setattr(predictions, "predict_batch", stopping)
    assert give(run, "photos", "--out", "cut.npy") == 130
    assert not Path("cut.npy").exists()
    assert give(run, "photos", "--out", "cut.npy") == 0
    assert asked[2:4] == [["4.png", "5.png"], ["4.png", "5.png"]]
    assert "continuing after 4 of 8 pictures" in capsys.readouterr().out
    for suffix in (".npy", ".txt", ".errors.csv", ".npy.json"):
        assert Path("cut" + suffix).read_bytes() == Path("whole" + suffix).read_bytes()
    assert not list(Path().glob("*.partial"))


def test_a_crash_before_the_first_row_costs_nothing(run, photos):
    assert give(run, "photos", "--out", "whole.npy") == 0
    noted = json.loads(Path("whole.npy.json").read_text()) | {"done": 0, "unreadable": {}}
    Path("cut.npy.json").write_text(json.dumps(noted))
    Path("cut.npy.partial").write_bytes(b"half a header")
    assert give(run, "photos", "--out", "cut.npy") == 0
    assert Path("cut.npy").read_bytes() == Path("whole.npy").read_bytes()


def test_whole_files_are_not_made_again_and_others_never_touched(run, photos, tmp_path, capsys):
    assert give(run, "photos") == 0
    before = Path("probabilities.npy").stat().st_mtime_ns
    assert give(run, "photos") == 0
    assert "nothing to do" in capsys.readouterr().out
    picture(photos / "8.png")
    assert give(run, "photos") == 2
    assert "of another network or for other examples" in capsys.readouterr().err
    assert Path("probabilities.npy").stat().st_mtime_ns == before
    for name in ("a.npy", "b.txt", "c.npy.partial", "d.errors.csv"):
        Path(name).write_text("precious")
        assert give(run, "photos", "--out", f"{name[0]}.npy") == 2
        assert Path(name).read_text() == "precious"
    assert "is missing or damaged; move or delete" in capsys.readouterr().err


def test_a_data_folder_stands_for_its_unlabelled_pictures(run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    picture(Path("data/labeled/ant/a.png"))
    picture(Path("data/unlabeled/u.png"))
    assert give(run, "data") == 0
    assert Path("probabilities.txt").read_text() == "data/unlabeled/u.png\n"
    assert "taking data/unlabeled" in capsys.readouterr().out


def test_what_cannot_be_is_one_sentence(run, photos, tmp_path, capsys):
    Path("empty").mkdir()
    points = make_run(tmp_path / "points", "", example=Example((2,), "float32"))
    for words in ((run, "empty"), (run, "nowhere"), (run, "photos", "--out", "a.csv"), (points, "photos")):
        assert give(*words) == 2
    assert give(run, "photos", "--out", "photos/0.png/p.npy") == 2
    assert capsys.readouterr().err.count("metapl: ") == 5
