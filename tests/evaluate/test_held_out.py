"""Evaluation: every example once, in order, in bounded memory, and without a trace in the training."""

import dataclasses
from collections import Counter

import jax
import numpy as np
import pytest

from metapl import config as configs
from metapl import data
from metapl.augment.views import Augmentation
from metapl.data.sources.dataset import Dataset
from metapl.evaluate import held_out
from metapl.inference.batches import EVALUATION
from metapl.train.loop import Hooks, Trained, train
from metapl.train.program import prepare
from metapl.types import Metrics, Network, Weights

DIGITS = """
log_every_steps = 15
[data]
name = "digits"
split = "digits@100#0"
[model]
hidden = [16]
[[stages]]
steps = 40
labeled_batch = 20
unlabeled_batch = 20
method = {name = "mpl"}
"""


def echo() -> Trained:
    """A network whose logits are its inputs times its one weight: its answers show what it was asked, and when."""

    def apply(params, stats, inputs, *, train, key=None):
        return inputs * params, stats

    network = Network(lambda key, inputs: Weights(0.0, {}), apply, lambda rate: echo().network)
    return Trained(network, Weights(np.array([1.0, 10.0], np.float32), {}))


@pytest.mark.parametrize("limit", [1, 3, 4, 7, 100])
def test_examples_are_answered_in_the_order_they_were_asked(monkeypatch, limit):
    monkeypatch.setattr(held_out, "EVALUATION", EVALUATION._replace(examples=limit))
    examples = np.arange(14, dtype=np.float32).reshape(7, 2)
    answers = held_out.logits(echo(), Augmentation(), [examples])
    np.testing.assert_array_equal(answers, [examples, 10 * examples])
    own = held_out.logits(echo(), Augmentation(), [examples, examples[::-1]])
    np.testing.assert_array_equal(own, [examples, 10 * examples[::-1]])


def test_memory_is_bounded_by_pixels():
    def size(side: int, count: int = 100_000, seeds: int = 1, view: int = 0, scaled_to: int = 0) -> int:
        pictures, network = np.broadcast_to(np.uint8(0), (count, side, side, 3)), echo().network
        return held_out.batch_size([[pictures]], Augmentation(size=view), network._replace(scaled_to=scaled_to), seeds)

    assert size(32) * 32**2 <= EVALUATION.pixels
    assert size(224) == 41
    assert size(64, view=224) == size(32, scaled_to=224) == 41  # what the network sees is what fills the memory
    assert size(64, scaled_to=32) == size(64)
    assert size(32, seeds=10) * 10 * 32**2 <= EVALUATION.pixels
    assert size(4000) == 1
    assert size(8, count=360) == 360
    assert size(8, count=2049) == 1025  # two of about the same size, not a full one and a filled-up one


def test_points_are_not_pixels():
    points = np.zeros((2000, 2), np.float32)
    assert held_out.batch_size([[points] * 100], Augmentation(), echo().network, 100) == 2000


def test_validation_and_test_go_to_their_own_labels():
    part = np.eye(3, dtype=np.float32)
    labels = np.array([0, 1, 2], np.int32)
    dataset = Dataset(part, labels, part, part, labels, ("a", "b", "c"), None, part[:2], np.array([0, 0], np.int32))
    first, second = held_out.examine(echo(), Augmentation(), [dataset, dataset])
    assert (first.test.accuracy, first.val.accuracy) == (1.0, 0.5)
    assert first.confusion.tolist() == np.eye(3).tolist()
    assert second.test.nll < first.test.nll  # the second seed's network is surer
    real = np.array([[0, 1, 0], [0, 1, 1], [0, 0, 0]], bool)
    (found,) = held_out.examine(one_seed(), Augmentation(), [dataset._replace(test_real=real, val=None)])
    assert found.test.real_accuracy == 0.5
    assert found.val is None


def one_seed() -> Trained:
    return echo()._replace(weights=Weights(np.ones(1, np.float32), {}))


def with_validation(config: configs.Config, seeds: list[int]) -> list[Dataset]:
    dataset = data.load(config.data, seeds, ())[0]
    half = dataset._replace(
        test=dataset.test[::2],
        test_labels=dataset.test_labels[::2],
        val=dataset.test[1::3],
        val_labels=dataset.test_labels[1::3],
    )
    return [half] * len(seeds)


@pytest.mark.parametrize("seeds", [[4], [4, 5]])
def test_evaluation_leaves_no_trace_in_the_training(seeds):
    config = configs.parse(DIGITS, "digits")
    datasets = with_validation(config, seeds)
    plain = train(config, seeds, datasets)
    seen, reported = [], []

    def examine(stage: int, step: int, trained: Trained) -> Metrics:
        found = held_out.examine(trained, config.augmentation, datasets)
        seen.append((stage, step, [one.test.accuracy for one in found]))
        return {"test_accuracy": jax.numpy.asarray(seen[-1][2])}

    watched = train(
        dataclasses.replace(config, eval_every_steps=12),
        seeds,
        datasets,
        Hooks(lambda stage, done, metrics: reported.append((done, "test_accuracy" in metrics)), examine=examine),
    )
    jax.tree.map(np.testing.assert_array_equal, watched.weights, plain.weights)
    assert [step for _, step, _ in seen] == [12, 24, 36, 40]
    assert reported == [(12, True), (15, False), (24, True), (30, False), (36, True), (40, True)]
    np.testing.assert_array_equal(seen[-1][2], held_out.accuracies(plain, config.augmentation, datasets))


def test_without_the_setting_only_the_end_of_the_run_is_looked_at():
    config = configs.parse(DIGITS, "digits")
    config = dataclasses.replace(config, stages=config.stages * 2)
    seen = []
    train(config, [4], with_validation(config, [4]), Hooks(examine=lambda *at: seen.append(at[:2]) or {}))
    assert seen == [(1, 40)]


def test_nothing_is_compiled_again_for_another_evaluation_or_another_seed():
    """Two seeds one after another, five evaluations each: one program each for init, advance, and the answers."""
    config = dataclasses.replace(configs.parse(DIGITS, "digits"), eval_every_steps=8)
    datasets = with_validation(config, [4, 5])
    program = prepare(config, datasets)
    traced = Counter[str]()
    network = program.networks[0]

    def apply(*args, train: bool, **more):
        traced["train" if train else "eval"] += 1
        return network.apply(*args, train=train, **more)

    counted = network._replace(apply=apply)

    def examine(stage: int, step: int, trained: Trained) -> Metrics:
        held_out.examine(trained._replace(network=counted), config.augmentation, datasets[:1])
        return {}

    init, _, advance, *_ = program.stages[0]
    sizes = []
    for seed in (4, 5):
        train(config, [seed], datasets[:1], Hooks(examine=examine), program)
        sizes.append((init._cache_size(), advance._cache_size(), traced["eval"]))
    assert sizes == [(1, 1, 1), (1, 1, 1)]
