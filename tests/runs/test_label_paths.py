"""What is noted of the pseudo labels: of whom, when, and that it is what the network says."""

from dataclasses import replace
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl import config as configs
from metapl import models
from metapl.augment.views import eval_view
from metapl.data.loading.loader import PredictionsOnDevice
from metapl.data.sources.dataset import Dataset
from metapl.runs import label_paths
from metapl.train.loop import Labeling, Trained
from metapl.types import Labeler, Weights
from metapl.weights import Example
from tests.tiny_run import drawn

SETTINGS = """
record_labels = 5
[data]
name = "folder"
size = 6
[model]
hidden = [4]
[[stages]]
steps = 100
labeled_batch = 4
unlabeled_batch = 4
method = {name = "mpl"}
"""
CONFIG = configs.parse(SETTINGS, "test")
SIX = Example((6, 6, 3), "uint8")


class Lines(list):
    add = list.append


def pictures(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, 6, 6, 3), np.uint8)


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    some = np.zeros(4, np.int32)
    return Dataset(pictures(4, 0), some, pictures(9, 1), pictures(4, 2), some, ("a", "b", "c"))


@pytest.fixture(scope="module")
def trained() -> Trained:
    """Two seeds'."""
    both = [drawn(CONFIG, 3, SIX, seed) for seed in (3, 4)]
    return Trained(models.build(CONFIG.model, 3), jax.tree.map(lambda *leaves: jnp.stack(leaves), *both))


def noted(dataset, trained, labeler: Labeler, steps=(50, 100), predictions=None) -> list[dict]:
    lines = Lines()
    record = label_paths.recorder(CONFIG, 7, [dataset, dataset], lines)
    for step in steps:
        record.note(0, step, Labeling(labeler, trained, predictions))
    return lines


def expected(trained, examples) -> np.ndarray:
    """Probabilities of the first seed's network."""
    params, stats = jax.tree.map(lambda leaf: leaf[0], trained.weights)
    logits, _ = trained.network.apply(params, stats, eval_view(CONFIG.augmentation)(examples), train=False)
    return np.asarray(jax.nn.softmax(logits))


def test_the_first_seed_s_network_is_asked_about_pictures_at_equal_distances(dataset, trained):
    first, second, test = noted(dataset, trained, Labeler(lambda state: state, teaches=True))
    assert {name: first[name] for name in ("seed", "stage", "step", "by", "part", "of")} == {
        "seed": 7, "stage": 0, "step": 50, "by": "teacher", "part": "unlabeled", "of": 9,
    }  # fmt: skip
    shares = expected(trained, dataset.unlabeled[[0, 2, 4, 6, 8]])
    assert first["classes"] == second["classes"] == shares.argmax(-1).tolist()
    assert first["thousandths"] == pytest.approx(1000 * shares.max(-1), abs=0.51)
    assert len(set(first["classes"])) > 1
    assert (test["step"], test["part"], test["of"]) == (100, "test", 4)
    assert test["classes"] == expected(trained, dataset.test).argmax(-1).tolist()


def test_a_network_that_labels_for_itself_is_no_teacher(dataset, trained):
    lines = noted(dataset, trained, Labeler(lambda state: state))
    assert [(line["part"], line["by"]) for line in lines] == [("unlabeled", "network")] * 2


def test_a_corrector_is_shown_answers(dataset):
    """One that turns the classes around."""
    network = SimpleNamespace(apply=lambda params, stats, p, train: (params * p[:, ::-1], stats))
    network = models.build(CONFIG.model, 3)._replace(apply=network.apply)
    told = np.random.default_rng(0).dirichlet(np.ones(3), (2, 9)).astype(np.float16)
    trained = Trained(network, Weights(jnp.ones((2, 1)), {}))
    labeler = Labeler(lambda state: state, teaches=True, corrector=network)
    (line,) = noted(dataset, trained, labeler, [100], PredictionsOnDevice(told[:, :4], told))
    assert line["classes"] == (2 - told[0, [0, 2, 4, 6, 8]].argmax(-1)).tolist()


@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_a_network_that_has_diverged_is_noted_all_the_same(dataset, trained, broken):
    weights = jax.tree.map(lambda leaf: jnp.full_like(leaf, broken), trained.weights)
    lines = noted(dataset, trained._replace(weights=weights), Labeler(lambda state: state), [50])
    assert all(0 <= share <= 1000 for share in lines[0]["thousandths"])


def test_it_is_asked_at_equal_distances_and_so_rarely_that_nobody_notices():
    stage = replace(CONFIG.stages[0], steps=100_000)
    assert label_paths.moments(stage, 5) == list(range(2_500, 100_001, 2_500))
    assert label_paths.moments(replace(stage, steps=3_000), 256) == [1500, 3000]
    work = 3 * 6_000 * 8
    assert len(label_paths.moments(replace(stage, steps=6_000), 100)) == 0.005 * work // 100 == 7
    assert label_paths.moments(replace(stage, steps=1), 256) == [1]


def test_what_has_nothing_to_note_has_no_file(dataset):
    labels, none = SimpleNamespace(labeler=Labeler(lambda state: state)), SimpleNamespace(labeler=None)
    program = SimpleNamespace(stages=(none, labels))
    assert label_paths.wanted(CONFIG, program, dataset)
    assert not label_paths.wanted(replace(CONFIG, record_labels=0), program, dataset)
    assert not label_paths.wanted(CONFIG, SimpleNamespace(stages=(none,)), dataset)
    assert not label_paths.wanted(CONFIG, program, dataset._replace(labeled=np.zeros((4, 2), np.float32)))
    assert not label_paths.wanted(CONFIG, program, dataset._replace(unlabeled=dataset.unlabeled[:0]))
