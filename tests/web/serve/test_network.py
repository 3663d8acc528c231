"""What is shown for a picture: the predictor's own prediction, and the labelled examples that are really nearest."""

import io
import json
import shutil
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from metapl.data.reading.decode import BadImage, DataError
from metapl.evaluate import predictor as predictors
from metapl.schema import ConfigError
from metapl.web.serve import examples, network
from metapl.web.serve.examples import LabeledExamples, collect, evenly, to_length_1
from metapl.web.serve.network import ServedNetwork, accuracy, facts
from tests import small_run


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    return small_run.make(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module")
def predictor(run) -> predictors.Predictor:
    return predictors.load(run)


@pytest.fixture(scope="module")
def served(run, predictor) -> ServedNetwork:
    served = ServedNetwork(predictor, facts("mine", run, predictor), collect(predictor, run, [], 1000), "")
    served.warm_up()
    return served


@pytest.fixture
def moved(run, tmp_path) -> tuple[Path, Path]:
    """A copy of the run and of its data, which a test may change; the run does not know where the copy is."""
    copy, data = tmp_path / "run", tmp_path / "data"
    shutil.copytree(run, copy)
    shutil.copytree(run.parent / "data", data)
    noted = json.loads((copy / "environment.json").read_text())
    (copy / "environment.json").write_text(json.dumps(noted | {"data_folders": [str(tmp_path / "nowhere")]}))
    return copy, data


def png_that_claims(width: int, height: int) -> bytes:
    """A PNG of a few bytes whose header claims a size."""
    header, nothing = struct.pack(">2I5B", width, height, 1, 0, 0, 0, 0), zlib.compress(b"")
    chunks = (b"IHDR" + header, b"IDAT" + nothing, b"IEND")
    framed = (struct.pack(">I", len(c) - 4) + c + struct.pack(">I", zlib.crc32(c)) for c in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(framed)


def test_classes_come_by_probability_with_the_predictors_own_numbers(run, predictor, served):
    file = run.parent / "data" / "test.png"
    expected = dict(zip(predictor.class_names, predictor.probabilities(predictor.read(file)[None])[0], strict=True))
    answer = served.predict(file.read_bytes())
    assert {row["name"]: row["probability"] for row in answer["classes"]} == pytest.approx(expected, abs=1e-7)
    shares = [row["probability"] for row in answer["classes"]]
    assert shares == sorted(shares, reverse=True)
    assert set(expected) == set(small_run.CLASSES)
    json.dumps(answer, allow_nan=False)


@pytest.mark.parametrize(("number", "name"), [(0, "0-1.png"), (3, "3-2.png")])
def test_a_training_picture_is_nearest_to_itself(run, served, number, name):
    file = run.parent / "data" / name
    first, *others = served.predict(file.read_bytes())["examples"]
    assert first["class"] == small_run.CLASSES[number]
    assert first["similarity"] == pytest.approx(1, abs=1e-5)
    assert len(others) == network.NEAREST - 1
    assert all(other["similarity"] < 0.9999 for other in others)
    index = int(first["picture"].removeprefix("/api/examples/").removesuffix(".png"))
    with Image.open(io.BytesIO(served.example(index))) as shown, Image.open(file) as original:
        small = original.resize((8, 8), Image.Resampling.BILINEAR, reducing_gap=2.0)
        assert np.array_equal(np.asarray(shown), np.asarray(small))


def test_a_bad_picture_is_refused_and_the_next_one_is_predicted(run, served):
    with pytest.raises(BadImage, match="not a picture of a known kind"):
        served.predict(b"<svg xmlns='http://www.w3.org/2000/svg'/>")
    assert served.predict((run.parent / "data" / "test.png").read_bytes())["classes"]


@pytest.mark.parametrize("side", [8_001, 100_000])
def test_a_picture_that_claims_too_many_pixels_is_not_unpacked(served, side):
    with pytest.raises(BadImage, match="more than the 64,000,000"):
        served.predict(png_that_claims(side, side))


def test_facts_about_the_network(served):
    assert served.model() == {
        "run": "mine",
        "method": "supervised",
        "network": "mlp",
        "accuracy": small_run.ACCURACY,
        "classes": sorted(small_run.CLASSES),
        "picture": {"height": 8, "width": 8, "channels": 3},
        "temperature": 1.0,
        "examples": 12,
        "why_no_examples": None,
    }
    assert served.example(11) is not None
    assert served.example(12) is None


def test_the_network_predicts_without_examples(run, predictor):
    bare = ServedNetwork(predictor, {}, None, "none.")
    bare.warm_up()
    assert bare.predict((run.parent / "data" / "test.png").read_bytes())["examples"] == []
    assert (bare.model()["examples"], bare.model()["why_no_examples"]) == (0, "none.")
    assert bare.example(0) is None


def test_a_network_without_finite_predictions_is_not_served(monkeypatch, predictor):
    monkeypatch.setattr(type(predictor), "probabilities", lambda *_: np.full((1, 4), np.nan, np.float32))
    with pytest.raises(ConfigError, match="not finite"):
        ServedNetwork(predictor, {}, None, "").warm_up()


@pytest.mark.parametrize("text", ["", "[]", '{"final": {}}', '{"final": {"accuracy": {"seeds": {"0": NaN}}}}'])
def test_a_missing_accuracy_is_not_shown(tmp_path, text):
    assert accuracy(tmp_path) is None
    (tmp_path / "result.json").write_text(text)
    assert accuracy(tmp_path) is None


def test_data_that_moved_are_found_where_the_user_says(predictor, moved):
    copy, data = moved
    assert len(collect(predictor, copy, [data], 1000)) == 12


def test_few_examples_include_all_classes(predictor, run):
    found = collect(predictor, run, [], 5)
    assert len(found) == 5
    assert set(found.labels) == {0, 1, 2, 3}


def test_a_damaged_picture_is_left_out(predictor, moved):
    copy, data = moved
    file = data / "2-1.png"
    file.write_bytes(b"x" * file.stat().st_size)  # a manifest of files knows only sizes
    found = collect(predictor, copy, [data], 1000)
    assert np.bincount(found.labels).sum() == 11
    assert len(found.features) == len(found.shown) == 11


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda run, data: shutil.rmtree(data), "there is no pictures.csv"),
        (lambda run, data: (data / "0-0.png").unlink(), "there is no file 0-0.png"),
        (lambda run, data: (data / "0-0.png").write_bytes(b"other"), "have changed since the run was trained"),
        (lambda run, data: (run / "split.json").unlink(), "the run's split.json is missing or damaged"),
        (lambda run, data: (run / "split.json").write_text("[1]"), "the run's split.json is missing or damaged"),
        (lambda run, data: (run / "environment.json").write_text("{"), "the run's environment.json is missing"),
        (lambda run, data: [file.write_bytes(b"x" * file.stat().st_size) for file in data.glob("*.png")], "none of"),
    ],
)
def test_missing_or_changed_data_give_an_error(predictor, moved, spoil, words):
    spoil(*moved)
    with pytest.raises(DataError, match=words):
        collect(predictor, moved[0], [moved[1]], 1000)


def test_the_nearest_are_those_at_the_smallest_angle():
    features = to_length_1(np.array([[1, 0], [0, 2], [3, 3], [0, 0]], np.float32))
    some = LabeledExamples((np.zeros((2, 2), np.uint8),) * 4, np.array([5, 6, 7, 8], np.int32), features)
    found = some.nearest(np.array([10, 9], np.float32), 3)
    assert [(near.number, near.label) for near in found] == [(2, 7), (0, 5), (1, 6)]
    assert found[0].similarity == pytest.approx(19 / np.sqrt(2 * 181))
    assert len(some.nearest(np.array([1, 1], np.float32), 100)) == 4
    assert some.png(-1) is None


def test_evenly_takes_turns():
    labels = np.array([0, 0, 0, 0, 1, 2, 2], np.int32)
    assert evenly(labels, 4).tolist() == [0, 1, 4, 5]
    assert evenly(labels, 100).tolist() == list(range(7))


def test_large_pictures_are_shown_small():
    assert examples._small(np.zeros((300, 200, 3), np.uint8)).shape == (128, 85, 3)
    assert examples._small(np.zeros((8, 8, 1), np.uint8)).shape == (8, 8)
