"""Pictures with predictions of the run's own weights, and the notes if there are none."""

import shutil

import numpy as np
import pytest

from metapl.evaluate import predictor as predictors
from metapl.report import labels, pictures, read
from metapl.report.blocks import Figure, Gallery, Text
from metapl.report.pictures import PredictedProbabilities
from metapl.weights import Example
from tests import small_run
from tests.tiny_run import make_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return small_run.make(tmp_path_factory.mktemp("small"))


def loaded(run) -> read.ReportedRun:
    (found,) = read.read_runs([run])
    return found


def test_the_run_predicts_its_own_test_pictures(run):
    figure, certain, uncertain, errors, said = pictures.pictures(loaded(run), [], 12)
    assert said == labels.NOTHING
    network = predictors.load(run)
    answer = network.probabilities(network.read(run.parent / "data" / "test.png")[None])[0]
    name, share = network.class_names[answer.argmax()], 100 * answer.max()
    assert "all 1 test examples" in figure.description
    assert isinstance(certain, Gallery)
    assert certain.pictures[0].caption.startswith(f"{name} {share:.1f} %")
    assert certain.pictures == uncertain.pictures
    assert certain.pictures[0].data.startswith("data:image/png;base64,")
    assert len(errors.pictures) == (name != small_run.CLASSES[0])


def test_other_data_are_refused(run):
    found = loaded(run)
    (said,) = pictures.pictures(read.ReportedRun(**vars(found) | {"split": {"checksum": "another"}}), [], 12)
    assert isinstance(said, Text)
    assert "not those that the run started with" in said.text


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("split.json", "[", "split.json is missing or damaged"),
        ("split.json", '{"labeled": null, "test": 3}', "labeled had None pictures"),
        ("weights.safetensors", None, "the weights have other classes"),
    ],
)
def test_a_damaged_file_is_named(run, tmp_path, file, content, message):
    copy = shutil.copytree(run, tmp_path / "copy")
    if content is None:
        make_run(tmp_path / "other", small_run.SETTINGS, ("a", "b"), Example((8, 8, 3), "uint8"))
        shutil.copy(tmp_path / "other" / file, copy / file)
    else:
        (copy / file).write_text(content)
    (said,) = pictures.pictures(loaded(copy), [], 12)
    assert isinstance(said, Text)
    assert message in said.text


@pytest.mark.parametrize("began", ['{"folder": null, "data_folders": 3}', '{"data_folders": [null]}'])
def test_where_the_run_began_may_be_anything(run, tmp_path, began):
    copy = shutil.copytree(run, tmp_path / "copy")
    (copy / "environment.json").write_text(began)
    assert isinstance(pictures.pictures(loaded(copy), [run.parent / "data"], 12)[0], Figure)


def test_predictions_that_are_not_finite_give_a_note(run, monkeypatch):
    monkeypatch.setattr(predictors.Predictor, "probabilities", lambda _, some: np.full((len(some), 4), np.nan))
    said = pictures.pictures(loaded(run), [], 12)[0]
    assert "not finite" in said.text


def test_the_calibration_plot_has_the_numbers_of_its_bins():
    probabilities = np.array([[0.9, 0.1], [0.9, 0.1], [0.4, 0.6], [0.3, 0.7]], np.float32)
    labels = np.array([0, 1, 1, 1], np.int32)
    figure = pictures.calibration(PredictedProbabilities(np.arange(4), probabilities, labels, 4, 0))
    assert isinstance(figure, Figure)
    assert "Expected calibration error 37.50 %; mean certainty 77.50 %, accuracy 75.00 %" in figure.description
    assert figure.svg.count("<circle") == 3
