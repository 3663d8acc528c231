"""A run's folder answers about new pictures as the run itself did, or says in a sentence why it cannot."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import load_file, save_file

from metapl.augment.views import eval_view
from metapl.data.reading.decode import BadImage
from metapl.data.reading.resize import centre_square
from metapl.data.sources import on_disk
from metapl.data.sources.source import Files
from metapl.evaluate.predictor import Predictor, load
from metapl.schema import ConfigError
from metapl.weights import Example
from tests.tiny_run import NAMES, SETTINGS, SIX, fit_folder, make_run, picture

PICTURES = np.random.default_rng(1).integers(0, 256, (300, 6, 6, 3), np.uint8)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory) -> Predictor:
    return load(make_run(tmp_path_factory.mktemp("run")))


def logits(loaded: Predictor, pictures: np.ndarray) -> np.ndarray:
    """The forward pass in NumPy: scale, one hidden layer of sigmoids, one layer."""
    params = jax.tree.map(np.asarray, loaded.weights.params)
    x = (pictures.reshape(len(pictures), -1) / 255 - 0.5) / 0.5
    hidden = 1 / (1 + np.exp(-(x @ params["Dense_0"]["kernel"] + params["Dense_0"]["bias"])))
    return hidden @ params["Dense_1"]["kernel"] + params["Dense_1"]["bias"]


def softmax(values: np.ndarray) -> np.ndarray:
    return np.exp(values) / np.exp(values).sum(-1, keepdims=True)


def test_it_answers_as_the_network_does(loaded):
    assert loaded.class_names == NAMES
    assert loaded.example == SIX
    np.testing.assert_allclose(loaded.probabilities(PICTURES), softmax(logits(loaded, PICTURES)), atol=1e-5)


def test_a_fit_that_has_not_ended_is_said_to_be_one(tmp_path):
    (tmp_path / "fit.json").write_text("{}")
    with pytest.raises(ConfigError, match="has not finished; the same metapl fit command continues it"):
        load(tmp_path)


@pytest.mark.parametrize("count", [0, 1, 2, 17, 140, 256, 257])
def test_any_number_of_pictures_can_be_asked_about(loaded, count):
    answers = loaded.probabilities(PICTURES[:count])
    assert answers.shape == (count, 3)
    np.testing.assert_allclose(answers, loaded.probabilities(PICTURES)[:count], atol=1e-6)


def test_features_are_what_the_classifier_is_given(loaded):
    features = loaded.features(PICTURES[:3])
    assert features.shape == (3, 4)
    head = jax.tree.map(np.asarray, loaded.weights.params["Dense_1"])
    answers = softmax(features @ head["kernel"] + head["bias"])
    np.testing.assert_allclose(answers, loaded.probabilities(PICTURES[:3]), atol=1e-5)


def test_other_shapes_and_types_are_refused(loaded):
    for wrong in (PICTURES[:, :5], PICTURES.astype(np.float32), PICTURES[0]):
        with pytest.raises(ConfigError, match=r"takes uint8 \[N, 6, 6, 3\]"):
            loaded.probabilities(wrong)


def test_a_file_is_read_as_in_training(loaded, tmp_path):
    file = picture(tmp_path / "a.png", size=(20, 31))
    expected = centre_square(np.asarray(Image.open(file)), 6)
    np.testing.assert_array_equal(loaded.read(file), expected)
    np.testing.assert_array_equal(loaded.read_bytes(file.read_bytes(), "a"), expected)
    large = picture(tmp_path / "a.jpg", size=(200, 310))
    np.testing.assert_array_equal(loaded.read(large), on_disk.read(Files((large,)), 0, 6))
    with pytest.raises(BadImage):
        loaded.read(tmp_path / "missing.png")


def test_grey_runs_and_runs_of_oblong_pictures_get_what_they_were_trained_with(tmp_path):
    example = Example((4, 8, 1), "uint8")
    loaded = load(make_run(tmp_path / "run", 'data.name = "npz"', example=example))
    grey = np.random.default_rng(0).integers(0, 256, (4, 8), np.uint8)
    for mode in ("L", "RGB", "RGBA"):
        Image.fromarray(grey).convert(mode).save(tmp_path / "a.png")
        np.testing.assert_array_equal(loaded.read(tmp_path / "a.png")[..., 0], grey)
    Image.new("RGB", (100, 80)).save(tmp_path / "large.png")
    assert loaded.probabilities(loaded.read(tmp_path / "large.png")[None]).shape == (1, 3)


def test_the_eval_view_is_inside(tmp_path):
    more = "\n[augmentation]\nsize = 4\nmean = [0.4]\nstd = [0.2]\nweak = {crop = 'resized'}"
    loaded = load(make_run(tmp_path, SETTINGS + more))
    seen = np.asarray(eval_view(loaded.config.augmentation)(jax.numpy.asarray(PICTURES[:2])))
    assert seen.shape == (2, 4, 4, 3)
    scaled = np.rint((seen * 0.2 + 0.4) * 255).astype(np.uint8)
    params = jax.tree.map(np.asarray, loaded.weights.params)
    hidden = 1 / (1 + np.exp(-(seen.reshape(2, -1) @ params["Dense_0"]["kernel"] + params["Dense_0"]["bias"])))
    assert scaled.min() >= 0
    np.testing.assert_allclose(loaded.features(PICTURES[:2]), hidden, atol=1e-5)


def test_a_fitted_folder_divides_by_its_temperature(tmp_path):
    fitted = load(fit_folder(tmp_path))
    assert fitted.temperature == 2
    np.testing.assert_allclose(fitted.probabilities(PICTURES[:5]), softmax(logits(fitted, PICTURES[:5]) / 2), atol=1e-5)


@pytest.mark.parametrize("name", ["..", ".", "", "../outside", "/tmp", "a/b", "a\\b", None, 3, "link", "a\0b"])
def test_a_fitted_folder_leads_nowhere_else(tmp_path, name):
    folder = fit_folder(tmp_path / "fit", run=name)
    make_run(tmp_path / "outside")
    (folder / "link").symlink_to(tmp_path / "outside")
    with pytest.raises(ConfigError, match="name of a folder beside the file"):
        load(folder)


@pytest.mark.parametrize("value", [0, -1, "2", None, True, float("nan"), float("inf")])
def test_a_temperature_that_cannot_be_is_refused(tmp_path, value):
    with pytest.raises(ConfigError, match="temperature takes a number above 0"):
        load(fit_folder(tmp_path, temperature=value))


@pytest.mark.parametrize("text", ["", "[]", '{"format": 2}', "{" * 9000, '{"run": "chosen"}'])
def test_another_model_json_is_refused(tmp_path, text):
    (fit_folder(tmp_path) / "model.json").write_text(text)
    with pytest.raises(ConfigError, match=r"model\.json"):
        load(tmp_path)


def test_the_seed_can_be_named(tmp_path):
    run = make_run(tmp_path, seeds=(3, 4))
    first, second = load(run), load(run, 4)
    assert (first.seed, second.seed) == (3, 4)
    assert not np.allclose(first.probabilities(PICTURES[:1]), second.probabilities(PICTURES[:1]))
    with pytest.raises(ConfigError, match="no weights of seed 5; it has seeds 3, 4"):
        load(run, 5)


def test_what_is_no_finished_run_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="not the folder of a run"):
        load(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match=r"no config\.toml"):
        load(tmp_path)
    run = make_run(tmp_path)
    (run / "weights.safetensors").unlink()
    with pytest.raises(ConfigError, match="did not finish"):
        load(run)


@pytest.mark.parametrize("notes", [None, {}, {"classes": "[]"}, {"classes": "3"}, {"classes": "[1]"}, {"classes": "{"}])
def test_weights_that_do_not_say_their_classes_are_refused(tmp_path, notes):
    file = make_run(tmp_path) / "weights.safetensors"
    save_file(load_file(file), file, notes)
    with pytest.raises(ConfigError, match="does not say what its classes are"):
        load(tmp_path)


@pytest.mark.parametrize("shape", [[0, 6, 3], [6, 6], [10**9, 6, 3], [6.0, 6, 3], "666"])
def test_weights_with_a_damaged_note_of_their_examples_are_refused(tmp_path, shape):
    file = make_run(tmp_path) / "weights.safetensors"
    notes = {"classes": json.dumps(NAMES), "example": json.dumps({"shape": shape, "dtype": "uint8"})}
    save_file(load_file(file), file, notes)
    with pytest.raises(ConfigError, match="it is damaged"):
        load(tmp_path)


def test_damaged_weights_and_a_wrong_number_of_classes_are_refused(tmp_path):
    file = make_run(tmp_path) / "weights.safetensors"
    save_file(load_file(file), file, {"classes": json.dumps(["a", "b"])})
    with pytest.raises(ConfigError, match="fit"):
        load(tmp_path)
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(ConfigError, match="cannot be read as a safetensors file"):
        load(tmp_path)


def test_weights_of_before_tell_their_size_by_the_settings(tmp_path):
    file = make_run(tmp_path) / "weights.safetensors"
    save_file(load_file(file), file, {"classes": json.dumps(NAMES)})
    assert load(tmp_path).example == SIX
    config = Path(tmp_path / "config.toml")
    config.write_text(config.read_text().replace("size = 6", "size = 0"))
    with pytest.raises(ConfigError, match="train it again"):
        load(tmp_path)


def test_a_run_on_points_answers_about_points_and_not_about_files(tmp_path):
    loaded = load(make_run(tmp_path, "", example=Example((2,), "float32")))
    assert loaded.probabilities(np.zeros((4, 2), np.float32)).shape == (4, 3)
    with pytest.raises(ConfigError, match="points"):
        loaded.read(tmp_path / "a.png")
