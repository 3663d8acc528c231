"""What a run wrote can be asked again: the same numbers, or a sentence why not."""

import io
import json
import shutil
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from PIL import Image
from rich.console import Console
from safetensors.numpy import load_file, save_file

from metapl import config as configs
from metapl.evaluate.finished_run import evaluate
from metapl.runs.start import start_run
from metapl.schema import ConfigError

SETTINGS = """
seed = 3
[data]
name = "npz"
file = "pictures.npz"
[augmentation]
weak = {flip = false, shift_pixels = 0}
[model]
hidden = [8]
[[stages]]
steps = 5
labeled_batch = 10
unlabeled_batch = 1
method = {name = "supervised", optimizer.learning_rate = 0.2}
"""


def write_pictures(place: Path, changed: int = 0) -> None:
    draw = np.random.RandomState(0)
    parts = {"": 40, "val_": 20, "test_": 30}
    arrays = {f"{part}images": draw.randint(0, 256, (n, 4, 4)).astype(np.uint8) for part, n in parts.items()}
    labels = {f"{part}labels": np.arange(n) % 10 for part, n in parts.items()}
    arrays["test_images"][0, 0, 0] += changed
    np.savez(place / "pictures.npz", **arrays, **labels)


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> tuple[Path, Path]:
    """The folder of the data and that of a run with two seeds."""
    place, out = tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("run")
    write_pictures(place)
    start_run(configs.parse(SETTINGS, "test"), 2, "auto", [place], out, Console(file=io.StringIO()))
    return place, out


@pytest.fixture
def copy(finished, tmp_path) -> Path:
    return Path(shutil.copytree(finished[1], tmp_path / "copy"))


def test_the_test_part_gives_the_numbers_of_the_result_to_the_last_bit(finished):
    place, out = finished
    evaluated = evaluate(out, "test", [place])
    assert evaluated.summary["final"] == json.loads((out / "result.json").read_text())["final"]
    assert evaluated.remarks == ["the same numbers as in result.json, to the last bit"]


def test_the_validation_part_is_another_one(finished):
    place, out = finished
    evaluated = evaluate(out, "val", [place])
    assert list(evaluated.summary["final"]["accuracy"]["seeds"]) == ["3", "4"]
    assert evaluated.summary["final"] != evaluate(out, "test", [place]).summary["final"]
    history = (out / "evaluations.csv").read_text().splitlines()
    header, first = history[0].split(","), history[1].split(",")
    expected = float(first[header.index("val_nll")])
    assert evaluated.summary["final"]["nll"]["seeds"]["3"] == expected


def test_the_data_are_looked_for_where_the_run_found_them(finished, copy):
    (copy / "environment.json").write_text(json.dumps({"data_folders": [str(finished[0])], "folder": "/"}))
    assert "to the last bit" in evaluate(copy, "test", [Path("nowhere")]).remarks[0]
    (copy / "environment.json").write_text(json.dumps({"data_folders": [], "folder": str(finished[0])}))
    assert "to the last bit" in evaluate(copy, "test", []).remarks[0]


def test_pictures_in_files_are_found_from_anywhere(tmp_path, monkeypatch):
    """They are read long after the settings were: each when its turn comes."""
    draw = np.random.RandomState(0)
    for part, count in (("labeled/a", 2), ("labeled/b", 2), ("test/a", 3)):
        (tmp_path / "pictures" / part).mkdir(parents=True)
        for number in range(count):
            Image.fromarray(draw.randint(0, 256, (4, 4, 3)).astype(np.uint8)).save(
                tmp_path / "pictures" / part / f"{number}.png"
            )
    source = 'name = "folder"\npath = "pictures"\nfeed = "files"'
    settings = SETTINGS.replace('name = "npz"\nfile = "pictures.npz"', source).replace("unlabeled_batch = 1\n", "")
    (tmp_path / "run").mkdir()
    monkeypatch.chdir(tmp_path)
    start_run(configs.parse(settings, "test"), 1, "auto", [], Path("run"), Console(file=io.StringIO()))
    monkeypatch.chdir("pictures")
    assert "to the last bit" in evaluate(Path("../run"), "test", []).remarks[0]


def test_other_weights_are_noticed(finished, copy):
    tensors = load_file(copy / "weights-4.safetensors")
    for name, tensor in tensors.items():
        tensors[name] = tensor * np.float32(1.5)
    save_file(tensors, copy / "weights-4.safetensors")
    (remark,) = evaluate(copy, "test", [finished[0]]).remarks
    assert "from result.json" in remark
    assert "nll" in remark


def test_data_that_changed_are_refused(finished, tmp_path):
    write_pictures(tmp_path, changed=1)
    with pytest.raises(ConfigError, match=r"not those that the run started with: test changed \(pictures' content\)"):
        evaluate(finished[1], "test", [tmp_path])


def test_what_is_missing_is_named(finished, copy):
    (copy / "split.json").unlink()
    (copy / "result.json").unlink()
    (copy / "weights-3.safetensors").unlink()
    evaluated = evaluate(copy, "test", [finished[0]])
    assert list(evaluated.summary["final"]["accuracy"]["seeds"]) == ["4"]
    assert "split.json is missing" in evaluated.remarks[0]
    assert "has not finished" in evaluated.remarks[1]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda run: (run / "config.toml").unlink(), "has no config.toml"),
        (lambda run: (run / "config.toml").write_text("seed = -1"), "seed takes a number of at least 0"),
        (lambda run: (run / "result.json").write_text("{"), "result.json cannot be read"),
        (lambda run: (run / "split.json").write_text("[]"), "does not hold a JSON object"),
        (lambda run: (run / "weights-3.safetensors").write_bytes(b"\x80\x04no"), "^(?!init_from).*cannot be read as a"),
        (lambda run: [path.unlink() for path in run.glob("weights*")], "finishes it"),
    ],
)
def test_a_broken_run_ends_with_a_sentence(finished, copy, spoil, words):
    spoil(copy)
    with pytest.raises(ConfigError, match=words):
        evaluate(copy, "test", [finished[0]])


def test_a_run_with_checkpoints_alone_is_to_be_resumed(finished, copy):
    for path in copy.glob("weights*"):
        path.unlink()
    (copy / "checkpoints" / "step-5").mkdir(parents=True)
    with pytest.raises(ConfigError, match="metapl resume"):
        evaluate(copy, "test", [finished[0]])


def test_weights_of_another_network_are_refused(finished, copy):
    tensors = load_file(copy / "weights-3.safetensors")
    tensors["params/Dense_1/bias"] = np.zeros(3, np.float32)
    save_file(tensors, copy / "weights-3.safetensors")
    with pytest.raises(ConfigError, match=r"weights-3.safetensors does not fit the model: 1 of another shape"):
        evaluate(copy, "test", [finished[0]])
    loaded = mock.patch("metapl.weights.load", return_value=({}, "the classifier starts anew"))
    with loaded, pytest.raises(ConfigError, match="another number of classes"):
        evaluate(copy, "test", [finished[0]])
