"""Pictures through the run's own weights and data, and what is said where there are none."""

import numpy as np
import pytest

from metapl import predictor as predictors
from metapl.report import labels, pictures, read
from metapl.report.blocks import Figure, Gallery, Text
from metapl.report.pictures import Asked

from ..serve import small_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return small_run.make(tmp_path_factory.mktemp("small"))


def loaded(run) -> read.Loaded:
    (found,) = read.find([run])
    return found


def test_the_run_is_asked_about_its_own_test_pictures(run):
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
    (said,) = pictures.pictures(read.Loaded(**vars(found) | {"split": {"checksum": "another"}}), [], 12)
    assert isinstance(said, Text)
    assert "not those that the run began with" in said.text


def test_the_calibration_plot_has_the_numbers_of_its_bins():
    probabilities = np.array([[0.9, 0.1], [0.9, 0.1], [0.4, 0.6], [0.3, 0.7]], np.float32)
    labels = np.array([0, 1, 1, 1], np.int32)
    figure = pictures.calibration(Asked(np.arange(4), probabilities, labels, 4, 0))
    assert isinstance(figure, Figure)
    assert "Expected calibration error 37.50 %; mean certainty 77.50 %, accuracy 75.00 %" in figure.description
    assert figure.svg.count("<circle") == 3
