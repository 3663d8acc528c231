"""A fixed network's predictions: computed once, stored as they are, continued where they were left, never mistaken."""

import io
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from metapl import config as configs
from metapl import data, models
from metapl.data.reading import probabilities
from metapl.data.sources.dataset import Dataset
from metapl.data.sources.on_disk import OnDisk, Reading
from metapl.data.sources.source import Files
from metapl.inference.batches import BatchRule
from metapl.inference.predictions_file import PredictionsFile
from metapl.models.mlp import MLP
from metapl.schema import ConfigError
from metapl.train import stored_predictions
from metapl.train.loop import Hooks, train
from metapl.train.stored_predictions import Teacher, precompute
from metapl.types import Keep

ROWS, CLASSES = 25, 3


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(stored_predictions, "STORED_PREDICTIONS", BatchRule(10, 2**21, "short"))


@pytest.fixture
def examples():
    return np.random.default_rng(0).integers(0, 256, (ROWS, 4, 4, 1), np.uint8)


def teacher(seed: int = 0, seeds: int = 1, channels: int = 1) -> Teacher:
    model = MLP(hidden=(16,), init_range=1.0)
    network = models.build(model, CLASSES)
    keys = jax.random.split(jax.random.key(seed), seeds)
    weights = jax.vmap(network.init, (0, None))(keys, jnp.zeros((1, 4, 4, channels)))
    return Teacher(model, network, weights, configs.Config().augmentation)


def compute(path, some: Teacher, examples, count=lambda rows: None, index=0):
    return precompute(path, some, index, examples, count)


def note(path, some: Teacher, examples, done: int) -> None:
    """Say beside a file that so many of its rows are done."""
    PredictionsFile(path, stored_predictions.origin_of(some, 0, examples), CLASSES)._write_note(done, {})


def direct(some: Teacher, examples, index=0):
    """The probabilities of one seed, all rows at once."""
    weights = jax.tree.map(lambda leaf: leaf[index], some.weights)
    logits, _ = some.network.apply(weights.params, weights.stats, jnp.asarray(examples) / 127.5 - 1, train=False)
    return np.asarray(jax.nn.softmax(logits))


def test_the_file_holds_the_networks_probabilities_to_float16(tmp_path, examples):
    some = teacher(seeds=2)
    for index in (0, 1):
        stored = compute(tmp_path / f"{index}.npy", some, examples, index=index)
        assert isinstance(stored, np.memmap)
        assert (stored.dtype, stored.shape) == (np.float16, (ROWS, CLASSES))
        np.testing.assert_allclose(stored, direct(some, examples, index), rtol=2**-11, atol=1e-6)
    assert not np.allclose(direct(some, examples, 0), direct(some, examples, 1), atol=0.01)


def test_data_select_reads_it(tmp_path, examples):
    stored = compute(tmp_path / "p.npy", teacher(), examples)
    read = np.concatenate(list(probabilities.chunks(tmp_path / "p.npy")))
    np.testing.assert_array_equal(read, stored.astype(np.float32))


def test_a_killed_run_goes_on_where_it_was_to_the_same_bytes(tmp_path, examples):
    whole, cut = tmp_path / "whole.npy", tmp_path / "cut.npy"
    compute(whole, teacher(), examples)

    def kill(rows: int) -> None:
        if rows == 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compute(cut, teacher(), examples, kill)
    assert not cut.exists()  # what is called .npy is whole
    counted = []
    compute(cut, teacher(), examples, counted.append)
    assert counted == [20, 25]
    assert cut.read_bytes() == whole.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "cut.npy",
        "cut.npy.json",
        "whole.npy",
        "whole.npy.json",
    ]


def test_killed_before_the_first_batch_it_begins_anew(tmp_path, examples):
    path = tmp_path / "p.npy"
    (tmp_path / "p.npy.partial").write_bytes(b"half a head")
    note(path, teacher(), examples, 0)
    np.testing.assert_allclose(compute(path, teacher(), examples), direct(teacher(), examples), atol=1e-3)


def test_a_whole_file_is_taken_as_it_is(tmp_path, examples):
    compute(tmp_path / "p.npy", teacher(), examples)
    before, counted = (tmp_path / "p.npy").stat().st_mtime_ns, []
    again = compute(tmp_path / "p.npy", teacher(), examples, counted.append)
    np.testing.assert_allclose(again, direct(teacher(), examples), atol=1e-3)
    assert counted == [ROWS]
    assert (tmp_path / "p.npy").stat().st_mtime_ns == before


@pytest.mark.parametrize("name", ["p.npy", "p.npy.partial"])
def test_a_damaged_file_is_one_sentence_and_left_alone(tmp_path, examples, name):
    """What is cut short must not be filled up with rows of zeros, as a map that may be written to would be."""
    path, some = tmp_path / name, teacher()
    whole = np.array(compute(tmp_path / "p.npy", some, examples))
    good = (tmp_path / "p.npy").read_bytes()
    (tmp_path / "p.npy").unlink()
    note(tmp_path / "p.npy", some, examples, 20)
    for harmed in (good[: len(good) // 2], b"", array_file(whole[:, :2]), array_file(whole.astype(np.float32))):
        path.write_bytes(harmed)
        with pytest.raises(ConfigError, match=rf"{name} (is damaged|was replaced): .* move or delete it"):
            compute(tmp_path / "p.npy", some, examples)
        assert path.read_bytes() == harmed
    for done in (-5, ROWS + 1):
        note(tmp_path / "p.npy", some, examples, done)
        with pytest.raises(ConfigError, match=r"metadata file .* is missing or damaged"):
            compute(tmp_path / "p.npy", some, examples)


def array_file(values: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()


@pytest.mark.parametrize("state", ["whole", "partial"])
@pytest.mark.parametrize("change", ["weights", "examples", "view", "model"])
def test_a_file_of_something_else_is_refused_and_left_alone(tmp_path, examples, state, change):
    path = tmp_path / "p.npy"

    def kill(rows: int) -> None:
        if rows == 10 and state == "partial":
            raise KeyboardInterrupt

    try:
        compute(path, teacher(), examples, kill)
    except KeyboardInterrupt:
        path = tmp_path / "p.npy.partial"
    before = path.read_bytes()
    other, asked = teacher(seed=int(change == "weights")), examples
    if change == "examples":
        asked = examples.copy()
        asked[-1, -1, -1, -1] ^= 1
    if change == "view":
        other = other._replace(augmentation=configs.Config(augmentation=views_of(mean=0.4)).augmentation)
    if change == "model":
        other = other._replace(model=MLP(hidden=(16,), init_range=1.0, activation="relu"))
    with pytest.raises(ConfigError, match="holds predictions of another network"):
        compute(tmp_path / "p.npy", other, asked)
    assert path.read_bytes() == before


def views_of(mean: float):
    from metapl.augment.views import Augmentation

    return Augmentation(mean=(mean,))


def test_answers_to_pictures_on_disk_stay_on_disk_with_them(tmp_path, examples):
    """The same predictions as to pictures in memory, and refused if a picture is exchanged for another."""
    paths = tuple(tmp_path / f"{i}.png" for i in range(ROWS))
    for path, picture in zip(paths, examples.repeat(3, axis=-1), strict=True):
        Image.fromarray(picture).save(path)
    read = OnDisk(Files(paths, tmp_path), 0, Reading())
    arrays = Dataset(read[:7], np.zeros(7, np.int32), read[:], read[:1], np.zeros(1, np.int32), ("a", "b", "c"))
    asked = (teacher(channels=3), [0])
    to_memory = stored_predictions.predict(*asked, [arrays], Keep(), tmp_path / "memory", lambda *_: lambda _: None)
    on_disk = arrays._replace(labeled=OnDisk(Files(paths[:7], tmp_path), 0, Reading()), unlabeled=read)
    found = stored_predictions.predict(
        *asked, [on_disk], Keep(per_class=4), tmp_path / "disk", lambda *_: lambda _: None
    )
    assert isinstance(found.unlabeled, np.memmap)
    np.testing.assert_array_equal(found.labeled, to_memory.labeled[0])
    np.testing.assert_array_equal(found.unlabeled, to_memory.unlabeled[0])
    assert found.rows.shape == (12,)
    paths[3].write_bytes(paths[3].read_bytes() + b"more")
    with pytest.raises(ConfigError, match="or for other examples"):
        stored_predictions.predict(*asked, [on_disk], Keep(), tmp_path / "disk", lambda *_: lambda _: None)


def test_a_file_without_a_note_is_refused(tmp_path, examples):
    path = tmp_path / "p.npy"
    np.save(path, np.full((ROWS, CLASSES), 1 / 3, np.float16))
    with pytest.raises(ConfigError, match=r"metadata file .* is missing or damaged"):
        compute(path, teacher(), examples)
    (tmp_path / "p.npy.json").write_text(json.dumps([1]))
    with pytest.raises(ConfigError, match=r"metadata file .* is missing or damaged"):
        compute(path, teacher(), examples)


@pytest.fixture
def stored(tmp_path):
    """Classes 0, 0, 0, 1, 1; nobody says 2."""
    rows = [[0.9, 0.1, 0], [0.6, 0.3, 0.1], [0.7, 0.2, 0.1], [0.2, 0.8, 0], [0.45, 0.5, 0.05]]
    np.save(tmp_path / "p.npy", np.array(rows, np.float16))
    return tmp_path / "p.npy"


def test_all_are_kept_unless_told_otherwise(stored):
    assert stored_predictions.kept_rows(stored, Keep(), 0) is None


def test_a_threshold_keeps_the_sure_ones_as_often_as_there_were_examples(stored):
    np.testing.assert_array_equal(stored_predictions.kept_rows(stored, Keep(threshold=0.65), 0), [0, 2, 3, 0, 2])
    with pytest.raises(ConfigError, match="leaves no unlabelled example"):
        stored_predictions.kept_rows(stored, Keep(threshold=0.95), 0)


def test_classes_are_balanced_by_the_best_and_by_copies(stored):
    """Two of class 0 by rank, the one sure of class 1 twice; the empty class's share goes to both of them alike."""
    rows = stored_predictions.kept_rows(stored, Keep(per_class=2, threshold=0.55), 0)
    np.testing.assert_array_equal(rows, [0, 2, 3, 3, 0, 3])


def test_a_class_that_nobody_is_of_leaves_the_others_equal(tmp_path):
    said = np.repeat(np.arange(4), [5, 0, 9, 7])
    np.save(tmp_path / "p.npy", np.eye(4, dtype=np.float16)[said])
    rows = stored_predictions.kept_rows(tmp_path / "p.npy", Keep(per_class=6), 0)
    np.testing.assert_array_equal(np.bincount(said[rows], minlength=4), [8, 0, 8, 8])


TWO_MODELS = """
log_every_steps = 20
[data]
name = "digits"
split = "digits@100#0"
[augmentation]
weak = {flip = false, shift_pixels = 1}
strong = {layers = 1, ops = ["invert"]}
[model]
hidden = [41]
activation = "relu"
[[stages]]
steps = 20
method = {name = "supervised", optimizer.learning_rate = 0.2}
[[stages]]
steps = 40
model = {name = "mlp", hidden = [23], activation = "relu"}
method = {name = "METHOD"}
[[stages]]
steps = 1
method = {name = "supervised"}
"""


@pytest.mark.parametrize("method", ["noisy_student", "reduced_mpl"])
def test_the_large_network_is_gone_when_the_student_learns(method, tmp_path):
    config = configs.parse(TWO_MODELS.replace("METHOD", method), "test")
    assert configs.parse(configs.dump(config), "dumped") == config
    seen = {}

    def watch(stage, done, metrics):
        sizes = {size for array in jax.live_arrays() for size in array.shape}
        seen[stage] = (41 in sizes, 23 in sizes)

    datasets = data.load(config.data, [3], ())
    trained = train(config, [3], datasets, Hooks(watch), folder=tmp_path)
    assert seen == {0: (True, False), 1: (False, True), 2: (False, True)}
    assert trained.weights.params["Dense_0"]["kernel"].shape[-1] == 23
    shape = probabilities.shape(tmp_path / "predictions-stage0-3.npy")
    assert shape == (len(datasets[0].unlabeled), 10)
    assert probabilities.shape(tmp_path / "predictions-stage0-3-labeled.npy").rows == 100


def test_another_network_cannot_go_on_from_weights():
    with pytest.raises(ConfigError, match=r"stages.1.model: uda continues from the weights of the stage before"):
        configs.parse(TWO_MODELS.replace("METHOD", "uda"), "test")


def test_each_seed_learns_from_its_own_teacher(tmp_path):
    """Pictures are shared by all seeds, predictions are not; a seed does not feel its neighbour."""
    config = configs.parse(TWO_MODELS.replace("METHOD", "noisy_student"), "test")
    (digits,) = data.load(config.data, [3], ())
    assert isinstance(digits, Dataset)
    both = train(config, [3, 4], [digits, digits], folder=tmp_path)
    names = {path.name for path in tmp_path.glob("*.npy")}
    assert names == {f"predictions-stage0-{seed}{part}.npy" for seed in (3, 4) for part in ("", "-labeled")}
    alone = train(config, [4], [digits])
    for one, two in zip(jax.tree.leaves(alone.weights), jax.tree.leaves(both.weights), strict=True):
        np.testing.assert_allclose(one[0], two[1], rtol=1e-3, atol=1e-3)
