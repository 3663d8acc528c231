"""Weights in files: what is written is what is read, and what cannot be used ends with one sentence."""

import dataclasses
import json
import re
import struct

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from metapl import config as configs
from metapl import data, models
from metapl.algorithms.mpl import MPL
from metapl.algorithms.supervised import Supervised
from metapl.cli import main as cli
from metapl.models.mlp import MLP
from metapl.models.wide_resnet import WideResNet
from metapl.optim import Optimizer
from metapl.schema import ConfigError, to_dict
from metapl.train.loop import train
from metapl.types import Network
from metapl.weights import load, save, starting_from

MODEL = WideResNet(depth=10, width=1)
PICTURES = jax.random.normal(jax.random.key(8), (2, 8, 8, 3))


def shaped(classes: int = 3):
    """What a network's weights look like."""
    network = models.build(MODEL, classes)
    return jax.eval_shape(network.init, jax.random.key(0), PICTURES)


def noise():
    """Weights that no network would start with."""
    generator = np.random.default_rng(0)
    return jax.tree.map(lambda leaf: generator.uniform(1, 2, leaf.shape).astype(np.float32), shaped())


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "weights.safetensors"
    save(path, noise(), to_dict(MODEL), ["ant", "bee", "cat"])
    return path


def assert_same(one, two):
    assert jax.tree.structure(one) == jax.tree.structure(two)
    jax.tree.map(np.testing.assert_array_equal, one, two)


def test_what_is_written_is_read(file):
    loaded, note = load(file, shaped())
    assert_same(loaded, noise())
    assert note == ""


def test_equal_weights_make_equal_files(tmp_path):
    """Class names that JSON escapes, too: the file is put in order in its place."""
    weights, names = noise(), ("ä\n", '"b"\\', "\x01", "犬")
    for number in range(8):
        save(tmp_path / str(number), weights, to_dict(MODEL), names)
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1
    with safe_open(tmp_path / "0", "numpy") as found:
        assert json.loads(found.metadata()["classes"]) == list(names)


def test_the_order_in_memory_does_not_matter(file):
    """The library writes memory as it lies, whatever an array's strides say."""
    save(file, jax.tree.map(np.asfortranarray, noise()), {}, [])
    assert_same(load(file, shaped())[0], noise())


def test_a_file_tells_its_model_and_classes(file):
    with safe_open(file, framework="numpy") as content:
        about = content.metadata()
    assert about["format"] == "metapl"
    assert json.loads(about["model"]) == {"name": "wide_resnet", **dataclasses.asdict(MODEL)}
    assert json.loads(about["classes"]) == ["ant", "bee", "cat"]


@pytest.mark.parametrize("dtype", [np.float16, np.float64, ml_dtypes.bfloat16])
def test_other_floats_become_float32(file, dtype):
    save_file({name: tensor.astype(dtype) for name, tensor in load_file(file).items()}, file)
    loaded, _ = load(file, shaped())
    assert {leaf.dtype for leaf in jax.tree.leaves(loaded)} == {np.dtype(np.float32)}
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=5e-3), loaded, noise())


def test_the_classifier_is_drawn_when_the_classes_differ(file):
    expected = shaped(classes=7)
    loaded, note = load(file, expected)
    assert note == f"{file} is for 3 classes, the data have 7: the classifier starts from random weights"
    sevens = jax.tree.map(lambda leaf: np.full(leaf.shape, 7.0), expected)
    twin = Network(lambda key, inputs: sevens, apply=None, with_dropout=None)
    network = starting_from(twin._replace(with_dropout=lambda rate: twin), loaded)
    for made in (network, network.with_dropout(0.5)):
        first = made.init(jax.random.key(3), PICTURES)
        assert_same(first.params.pop("head"), sevens.params["head"])
        whole = noise()
        del whole.params["head"]
        assert_same(first, whole)


def changed(file, change) -> str:
    """The error after a change of the tensors."""
    tensors = {name: tensor.copy() for name, tensor in load_file(file).items()}  # out of the file to be overwritten
    change(tensors)
    save_file(tensors, file)
    with pytest.raises(ConfigError) as error:
        load(file, shaped())
    assert "\n" not in str(error.value)
    return str(error.value).removeprefix(f"{file} ")


def test_what_does_not_fit_is_listed(file):
    def change(tensors):
        for name in [name for name in tensors if name.startswith("params/stage1_")]:
            del tensors[name]
        tensors["params/extra"] = np.zeros(3, np.float32)
        tensors["params/stem_conv/kernel"] = np.zeros((5, 5, 3, 16), np.float32)

    assert changed(file, change) == (
        "does not fit the model: 6 missing (params/stage1_block0/conv1/kernel, params/stage1_block0/conv2/kernel, "
        "params/stage1_block0/norm1/bias, …); 1 unexpected (params/extra); "
        "1 of another shape (params/stem_conv/kernel [5, 5, 3, 16] instead of [3, 3, 3, 16])"
    )


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        (np.zeros(64, np.int32), r"has int32 numbers in params/head_norm/bias; weights are floats"),
        (np.full(64, np.nan, np.float32), r"has numbers in params/head_norm/bias that are not finite"),
        (np.full(64, 1e300), r"has numbers in params/head_norm/bias that are not finite"),
    ],
)
def test_numbers_that_are_no_weights_are_refused(file, tensor, words):
    assert changed(file, lambda tensors: tensors.update({"params/head_norm/bias": tensor})) == words


@pytest.mark.parametrize(("leaf", "shape", "had"), [("kernel", (9, 4), [64, 3]), ("bias", (), [3])])
def test_a_head_that_differs_in_more_than_its_classes_is_an_error(file, leaf, shape, had):
    said = changed(file, lambda tensors: tensors.update({f"params/head/{leaf}": np.zeros(shape, np.float32)}))
    assert said == f"does not fit the model: 1 of another shape (params/head/{leaf} {list(shape)} instead of {had})"


def header(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"1234567",
        b"\x80\x04\x95 a pickle, or something else that is long enough",
        header(b"{}")[:-1],
        header(b'{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}'),  # the numbers are missing
        header(b'{"a":{"dtype":"F32","shape":[1000000000000],"data_offsets":[0,4]}}') + b"1234",
        header(b'{"a":{"dtype":"F32","shape":[18446744073709551615,8],"data_offsets":[0,4]}}') + b"1234",
        header(b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}') + b"1234",
        header(b'{"a":{"dtype":"PYTHON","shape":[1],"data_offsets":[0,4]}}') + b"1234",
        header(b'{"a":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]}}') + b"1234",
        header(b"[" * 100_000),
        struct.pack("<Q", 2**63) + b"{}",
    ],
)
def test_a_damaged_file_ends_with_a_sentence_that_names_it(tmp_path, content):
    path = tmp_path / "bad.safetensors"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=f"^{re.escape(str(path))} ") as error:
        load(path, shaped())
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 500


@pytest.mark.parametrize("share", [0.001, 0.3, 0.99])
def test_a_file_that_was_cut_is_refused(file, share):
    whole = file.read_bytes()
    file.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(ConfigError, match="cannot be read as a safetensors file"):
        load(file, shaped())


@pytest.mark.parametrize("name", ["nowhere.safetensors", "."])
def test_what_is_no_file_is_refused(tmp_path, name):
    with pytest.raises(ConfigError, match="is not a file"):
        load(tmp_path / name, shaped())


# --- in training ------------------------------------------------------------------------------------------------------

STILL = Optimizer(learning_rate=1e-9)


def moons(**changes):
    return dataclasses.replace(configs.load("two_moons_mpl"), model=MLP(hidden=(5,)), **changes)


@pytest.fixture
def perceptron(tmp_path):
    """Weights of a network for TwoMoon, far from any that would be drawn."""
    network = models.build(MLP(hidden=(5,)), classes=2)
    weights = jax.tree.map(lambda leaf: leaf + 2, network.init(jax.random.key(0), jnp.zeros((1, 2))))
    save(tmp_path / "first.safetensors", weights, to_dict(MLP(hidden=(5,))), ["0", "1"])
    return tmp_path / "first.safetensors", weights


@pytest.mark.parametrize("seeds", [[3], [3, 4]])
@pytest.mark.parametrize("before", [0, 1])
def test_every_fresh_network_starts_from_the_file(perceptron, seeds, before):
    """A student that hardly moves ends where the file is, in the first stage and after another."""
    path, weights = perceptron
    mpl = configs.Stage(MPL(teacher=STILL, student=STILL), steps=2)
    moved = configs.Stage(Supervised(Optimizer(learning_rate=1.0)), steps=5)
    config = moons(init_from=str(path), stages=(*[moved] * before, mpl))
    trained = train(config, seeds, data.load(config.data, seeds, ()))
    for index in range(len(seeds)):
        jax.tree.map(
            lambda a, b, index=index: np.testing.assert_allclose(a[index], b, atol=1e-5), trained.weights, weights
        )


def test_teacher_and_student_move_apart(perceptron):
    """They start from the same numbers, but not from the same memory."""
    path, weights = perceptron
    teacher, student = Optimizer(learning_rate=1e-9), Optimizer(learning_rate=0.5)
    config = moons(init_from=str(path), stages=(configs.Stage(MPL(teacher=teacher, student=student), steps=20),))
    trained = train(config, [3], data.load(config.data, [3], ()))
    moved = jax.tree.map(lambda a, b: float(jnp.abs(a[0] - b).max()), trained.weights, weights)
    assert max(jax.tree.leaves(moved)) > 1e-2


def test_a_run_starts_from_the_weights_of_another(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("metapl.system.runtime.start", lambda: None)
    monkeypatch.chdir(tmp_path)
    first = ["train", "two_moons_supervised", "--stages.0.steps", "30"]
    cli.main([*first, "--out", "one"])
    cli.main([*first, "--out", "two", "--init-from", "one/weights.safetensors", "--seeds", "2", "--seed", "7"])
    found = sorted(path.name for path in (tmp_path / "two").glob("weights*"))
    assert found == ["weights-7.safetensors", "weights-8.safetensors"]
    assert configs.load("two/config.toml").init_from == "one/weights.safetensors"
    start, one, two = (load_file(f"{name}.safetensors") for name in ("one/weights", "two/weights-7", "two/weights-8"))
    assert start.keys() == one.keys() == two.keys()
    assert any(not np.array_equal(one[name], two[name]) for name in one)
    for later in (one, two):
        assert max(np.abs(later[name] - start[name]).max() for name in start) < 1  # 30 small steps away


def test_a_file_for_another_model_ends_the_run_with_a_sentence(capsys, file, tmp_path, monkeypatch):
    monkeypatch.setattr("metapl.system.runtime.start", lambda: None)
    out = ["--out", str(tmp_path / "run")]
    with pytest.raises(SystemExit) as stop:
        cli.main(["train", "two_moons_supervised", "--init-from", str(file), *out])
    assert stop.value.code == 2
    err = capsys.readouterr().err
    assert "does not fit the model: 6 missing (params/Dense_0/bias" in " ".join(err.split())
    assert "Traceback" not in err
