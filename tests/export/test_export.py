"""`metapl export`: what is left behind answers as the run does, says how to be used, and is whole or not there."""

import json
import re
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest
from jax import export as jax_export
from safetensors import safe_open

from metapl.evaluate.predictor import load
from metapl.export import check, formats
from metapl.weights import Example
from tests.exit_code import exit_code
from tests.tiny_run import NAMES, SETTINGS, fit_folder, make_run, picture

ALL = ("--onnx", "--stablehlo", "--safetensors")


def give(run: Path, *words: str) -> int:
    return exit_code("export", str(run), *words)


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> tuple[Path, Path]:
    """A fitted folder, with a temperature, and its exports."""
    place = tmp_path_factory.mktemp("export")
    run = fit_folder(place / "fit")
    final = {"accuracy": {"seeds": {"0": 0.4321}}}
    (run / "chosen" / "result.json").write_text(json.dumps({"final": final}))
    for number in range(5):
        picture(place / "photos" / f"{number}.png", number, (9, 7))
    (place / "photos" / "broken.png").write_bytes(b"")
    assert give(run, *ALL, "--check", str(place / "photos"), "--out", str(place / "out")) == 0
    return run, place / "out"


PICTURES = np.random.default_rng(1).integers(0, 256, (17, 6, 6, 3), np.uint8)


def test_onnx_answers_as_the_run_does_for_any_batch(exported):
    run, out = exported
    onnx.checker.check_model(str(out / "model.onnx"), full_check=True)
    session = onnxruntime.InferenceSession(out / "model.onnx", providers=["CPUExecutionProvider"])
    for count in (1, 3, 17):
        (answers,) = session.run(None, {"pictures": PICTURES[:count]})
        np.testing.assert_allclose(answers, load(run).probabilities(PICTURES[:count]), atol=1e-6)
    notes = session.get_modelmeta().custom_metadata_map
    assert json.loads(notes["classes"]) == list(NAMES)
    assert json.loads(notes["temperature"]) == 2


def test_stablehlo_answers_as_the_run_does_for_any_batch(exported):
    run, out = exported
    model = jax_export.deserialize(bytearray((out / "model.stablehlo").read_bytes()))
    assert set(model.platforms) == {"cpu", "cuda", "tpu"}
    for count in (1, 17):
        answers = np.asarray(model.call(jnp.asarray(PICTURES[:count])))
        np.testing.assert_allclose(answers, load(run).probabilities(PICTURES[:count]), atol=1e-6)


def test_safetensors_hold_the_weights_and_all_notes(exported):
    run, out = exported
    with safe_open(out / "model.safetensors", "numpy") as file:
        notes = file.metadata()
        kernel = file.get_tensor("params/Dense_0/kernel")
    np.testing.assert_array_equal(kernel, load(run).weights.params["Dense_0"]["kernel"])
    assert json.loads(notes["classes"]) == list(NAMES)
    assert json.loads(notes["example"]) == {"shape": [6, 6, 3], "dtype": "uint8"}
    assert json.loads(notes["temperature"]) == 2


def test_the_card_tells_it_all_and_its_code_runs(exported, monkeypatch, capsys):
    _, out = exported
    card = (out / "model_card.md").read_text("utf-8")
    for words in ("| accuracy | 0.4321 |", "uint8 [batch, 6, 6, 3]", "temperature 2", "Checked on 5 pictures of"):
        assert words in card
    assert json.loads(re.search(r"```json\n(.*?)```", card, re.DOTALL)[1]) == list(NAMES)
    monkeypatch.chdir(out)
    picture(out / "photo.jpg", 3, (20, 30))
    for code in re.findall(r"```python\n(.*?)```", card, re.DOTALL)[:2]:
        exec(code, {"open": Closing})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert all(repr(NAMES[1]) in line for line in lines)
    (out / "photo.jpg").unlink()


class Closing:
    """A file that is closed once it was read: the card's short code leaves that to Python, and warnings are errors."""

    def __init__(self, name: str, mode: str = "r", encoding: str | None = None) -> None:
        self.content = Path(name).read_bytes() if "b" in mode else Path(name).read_text(encoding)

    def read(self):
        return self.content


def test_an_export_that_differs_is_not_left_behind(tmp_path, monkeypatch, capsys):
    run = make_run(tmp_path / "run")
    monkeypatch.setattr(check, "TOLERANCE", -1.0)
    assert give(run, "--safetensors", "--out", str(tmp_path / "out")) == 2
    assert "it is not kept" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    (tmp_path / "empty").mkdir()
    assert give(run, "--safetensors", "--out", str(tmp_path / "empty")) == 2
    assert list((tmp_path / "empty").iterdir()) == []


def test_wrong_answers_are_found():
    class Fake:
        class_names = NAMES

        def probabilities(self, examples):
            return np.full((len(examples), 3), 1 / 3, np.float32)

    def off_by(change):
        def ask(examples):
            answers = np.full((len(examples), 3), 1 / 3, np.float32)
            answers[-1, 0] += change
            return answers

        return ask

    assert check.largest_difference(Fake(), off_by(0.25), PICTURES) == pytest.approx(0.25)
    assert np.isnan(check.largest_difference(Fake(), off_by(np.nan), PICTURES))
    with pytest.raises(ConfigErrorLike, match="nan"):
        check.refuse_if_far("onnx", float("nan"), 1e-3)
    with pytest.raises(ConfigErrorLike, match="numbers for"):
        check.largest_difference(Fake(), lambda examples: np.zeros((1, 3), np.float32), PICTURES)


ConfigErrorLike = ValueError  # what ConfigError is


def test_the_runs_own_pictures_are_taken_where_they_are_and_noise_else(tmp_path, capsys):
    for part in ("labeled", "test"):
        for number, name in enumerate(NAMES):
            picture(tmp_path / "data" / part / name / "a.png", number)
    run = make_run(tmp_path / "run")
    assert give(run, "--safetensors", "--out", str(tmp_path / "a")) == 0
    assert "48 random examples" in capsys.readouterr().out
    assert give(run, "--safetensors", "--data-dir", str(tmp_path / "data"), "--out", str(tmp_path / "b")) == 0
    assert "3 test pictures of the run" in capsys.readouterr().out


def test_points_and_bfloat16_are_exported_too(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    points = make_run(tmp_path / "points", "", example=Example((2,), "float32"))
    assert give(points, "--onnx") == 0
    assert "48 test examples of the run" in capsys.readouterr().out
    settings = SETTINGS.replace('"mlp"', '"wide_resnet"').replace("hidden = [4]", "depth = 10\nwidth = 1\nremat = true")
    rough = make_run(tmp_path / "rough", settings + 'precision = "bfloat16"')
    assert give(rough, "--onnx") == 0
    assert sorted(path.name for path in Path("runs/export-2").iterdir()) == [
        "classes.json",
        "model.onnx",
        "model_card.md",
    ]


def test_what_cannot_be_is_one_sentence(tmp_path, monkeypatch, capsys):
    run = make_run(tmp_path / "run")
    assert give(run) == 2
    assert give(tmp_path / "nowhere", "--onnx") == 2
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").touch()
    assert give(run, "--onnx", "--out", str(tmp_path / "mine")) == 2
    assert give(run, "--onnx", "--check", str(tmp_path / "nowhere"), "--out", str(tmp_path / "x")) == 2
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    assert give(run, "--onnx", "--out", str(tmp_path / "x")) == 2
    told = capsys.readouterr().err
    assert told.count("metapl: ") == 5
    assert "pip install 'metapl[export]'" in told
    assert not (tmp_path / "x").exists()


def test_a_network_that_is_too_large_for_onnx_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "PROTOBUF_LIMIT", 100)
    with pytest.raises(ConfigErrorLike, match="2 GB"):
        formats.write_onnx(load(make_run(tmp_path)), tmp_path / "model.onnx")
