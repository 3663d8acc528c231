"""The classifier as scikit-learn, and a person with arrays, meet it."""

import json

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_moons
from sklearn.utils.estimator_checks import parametrize_with_checks

import metapl
from metapl import data
from metapl.estimator import MetaPseudoLabels
from metapl.evaluate import predictor
from metapl.schema import ConfigError

EXPECTED = {"check_classifiers_classes": "it takes −1 for a class, which here means that there is no label"}


@parametrize_with_checks([MetaPseudoLabels(steps=100)], expected_failed_checks=lambda estimator: EXPECTED)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def pictures():
    digits = load_digits()
    chosen = digits.target < 3
    return (digits.images[chosen][:200] * 15.9).astype(np.uint8), digits.target[chosen][:200]


@pytest.fixture(scope="module")
def fitted(pictures):
    """Digits by name."""
    images, numbers = pictures
    names = np.array(["zero", "one <b>", "zwei"])[numbers[:150]]
    return MetaPseudoLabels(steps=100, mirror=False, random_state=0).fit(images[:150], names)


def test_pictures_with_names_for_labels_are_learnt(fitted, pictures):
    images, numbers = pictures
    right = np.array(["zero", "one <b>", "zwei"])[numbers]
    assert fitted.classes_.tolist() == ["one <b>", "zero", "zwei"]
    assert fitted.score(images[150:], right[150:]) > 0.8
    assert fitted.predict_proba(images).sum(-1) == pytest.approx(1)


def test_what_is_saved_is_loaded_without_running_anything_and_is_a_runs_folder(fitted, pictures, tmp_path):
    fitted.save(tmp_path / "model")
    assert sorted(file.name for file in (tmp_path / "model").iterdir()) == [
        "config.toml", "estimator.json", "weights.safetensors",
    ]  # fmt: skip
    loaded = MetaPseudoLabels.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(pictures[0]), fitted.predict_proba(pictures[0]))
    assert loaded.predict(pictures[0]).tolist() == fitted.predict(pictures[0]).tolist()
    answers = predictor.load(tmp_path / "model").probabilities(pictures[0][:4, ..., None])
    np.testing.assert_allclose(answers, fitted.predict_proba(pictures[0][:4]), atol=1e-5)
    with pytest.raises(ConfigError, match="not empty"):
        fitted.save(tmp_path / "model")


def test_a_damaged_folder_is_refused_in_a_sentence(fitted, tmp_path):
    with pytest.raises(ConfigError, match="is not a saved model"):
        MetaPseudoLabels.load(tmp_path / "nowhere")
    fitted.save(tmp_path / "model")
    about = json.loads((tmp_path / "model" / "estimator.json").read_text("utf-8"))
    (tmp_path / "model" / "estimator.json").write_text(json.dumps(about | {"classes": ["a", "b"]}), "utf-8")
    with pytest.raises(ConfigError, match="does not fit the model"):
        MetaPseudoLabels.load(tmp_path / "model")


def test_unlabelled_examples_apart_or_marked_are_the_same_data_and_seeds_decide():
    points, labels = make_moons(120, noise=0.1, random_state=0)
    names = np.array(["left", "right"], object)[labels]
    marked = np.where(np.arange(120) < 12, names, None)
    make = MetaPseudoLabels(steps=60, random_state=3)
    one = make.fit(points, marked).predict_proba(points)
    assert make.classes_.tolist() == ["left", "right"]
    assert make.score(points, names.tolist()) > 0.7
    marked = np.where(np.arange(120) < 12, labels, -1)
    np.testing.assert_array_equal(one, make.fit(points, marked).predict_proba(points))
    two = make.fit(points[:12], labels[:12], unlabeled=points[12:]).predict_proba(points)
    np.testing.assert_array_equal(one, two)
    make.set_params(random_state=4).fit(points, marked)
    assert not np.array_equal(make.predict_proba(points), one)


@pytest.mark.parametrize(
    ("x", "y", "sentence"),
    [
        (np.zeros((4, 2)), [0, 0, 0, -1], "labels of one class"),
        (np.zeros((4, 2)), [-1] * 4, "labels of no class"),
        (np.zeros((4, 8, 8, 3, 1)), [0, 1, 0, 1], "pictures have"),
        (np.zeros((4, 8, 8, 2)), [0, 1, 0, 1], "pictures have"),
    ],
)
def test_what_cannot_be_learnt_is_refused(x, y, sentence):
    with pytest.raises(ValueError, match=sentence):
        MetaPseudoLabels().fit(x, y)


def test_pictures_of_bytes_and_of_floats_are_the_same_and_other_values_are_refused(fitted, pictures):
    images, _ = pictures
    np.testing.assert_array_equal(fitted.predict_proba(images), fitted.predict_proba(images / 255))
    for wrong in (images / 255.0 * 16, images / 255.0 - 0.5, images.astype(int) - 1):
        with pytest.raises(ValueError, match="whole numbers from 0 to 255 or floats from 0 to 1"):
            fitted.predict(wrong)


def test_settings_of_a_search_are_saved_as_plain_numbers(tmp_path):
    points, labels = make_moons(20, random_state=0)
    model = MetaPseudoLabels(steps=np.int64(2), jitter=np.float32(0.5), mirror=np.bool_(True), random_state=0)
    model.fit(points, labels).save(tmp_path / "model")
    assert MetaPseudoLabels.load(tmp_path / "model").get_params()["steps"] == 2


def test_minus_one_beside_names_is_no_class():
    points, _ = make_moons(8, random_state=0)
    with pytest.raises(ValueError, match="use None for examples without a label"):
        MetaPseudoLabels(steps=1).fit(points, ["cat", "dog", -1, -1, "cat", "dog", "cat", "dog"])
    names = np.array(["cat", "dog", np.int64(-1), None, "cat", "dog", "cat", "dog"], object)
    assert MetaPseudoLabels(steps=2, random_state=0).fit(points, names).classes_.tolist() == ["cat", "dog"]


def test_other_shapes_than_those_that_were_learnt_are_refused(fitted):
    with pytest.raises(ValueError, match="shape"):
        fitted.predict(np.zeros((2, 8, 9), np.uint8))


def test_the_package_itself_stays_light_and_says_what_it_lacks():
    assert metapl.MetaPseudoLabels is MetaPseudoLabels
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        metapl.Nonsense  # noqa: B018


@pytest.mark.parametrize("kind", ["points", "pictures"])
def test_settings_say_that_the_data_were_arrays(kind, fitted, tmp_path):
    if kind == "points":
        fitted = MetaPseudoLabels(steps=2, random_state=0).fit(np.arange(8.0).reshape(4, 2), [0, 1, 0, 1])
    fitted.save(tmp_path / "model")
    assert '[data]\nname = "arrays"' in (tmp_path / "model" / "config.toml").read_text("utf-8")
    loaded = MetaPseudoLabels.load(tmp_path / "model")
    assert loaded.config_ == fitted.config_
    with pytest.raises(ConfigError, match="given in Python"):
        data.load(loaded.config_.data, [0], ())


@pytest.mark.parametrize("name", ["two_moons", "npz"])
def test_models_saved_before_arrays_had_a_name_are_loaded(name, fitted, pictures, tmp_path):
    fitted.save(tmp_path / "model")
    settings = tmp_path / "model" / "config.toml"
    settings.write_text(settings.read_text("utf-8").replace('name = "arrays"', f'name = "{name}"'), "utf-8")
    loaded = MetaPseudoLabels.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(pictures[0]), fitted.predict_proba(pictures[0]))
