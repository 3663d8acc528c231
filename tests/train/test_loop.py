"""The one loop: the same seed gives the same numbers, however the work is cut."""

import dataclasses
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl import config as configs
from metapl import data, models
from metapl.algorithms.simclr import SimCLR
from metapl.algorithms.supervised import Supervised
from metapl.augment.views import Augmentation
from metapl.config import Config, Stage
from metapl.data.loading import loader
from metapl.evaluate import held_out
from metapl.optim import Optimizer
from metapl.schema import ConfigError
from metapl.train.loop import Hooks, Trained
from metapl.train.loop import train as train_on
from metapl.train.program import prepare, stage_functions


def small(name: str, **changes) -> Config:
    config = configs.load(name)
    stages = tuple(dataclasses.replace(stage, steps=40) for stage in config.stages)
    return dataclasses.replace(config, stages=stages, **changes)


def train(config: Config, seeds: list[int], **hooks) -> Trained:
    return train_on(config, seeds, data.load(config.data, seeds, ()), Hooks(**hooks))


@pytest.fixture(scope="module")
def three_seeds():
    return train(small("two_moons_mpl_uda", log_every_steps=40), seeds=[4, 5, 6])


def assert_same(one, two, **tolerance):
    compare = np.testing.assert_allclose if tolerance else np.testing.assert_array_equal
    jax.tree.map(lambda a, b: compare(a, b, **tolerance), one, two)


def test_the_same_seed_gives_the_same_bits(three_seeds):
    assert_same(train(small("two_moons_mpl_uda", log_every_steps=40), seeds=[4, 5, 6]).weights, three_seeds.weights)


def test_how_the_loop_is_cut_changes_nothing(three_seeds):
    seen = []
    cut = train(
        small("two_moons_mpl_uda", log_every_steps=15),
        seeds=[4, 5, 6],
        watch=lambda stage, done, metrics: seen.append((stage, done, sorted(metrics))),
    )
    assert_same(cut.weights, three_seeds.weights)
    assert [(stage, done) for stage, done, _ in seen] == [(0, 15), (0, 30), (0, 40)]
    assert {"feedback", "student_loss", "teacher_loss"} <= set(seen[0][2])


@pytest.mark.parametrize(("seeds", "log_every_steps"), [([4, 5, 6], 40), ([4], 15)])
def test_pieces_change_no_bit_of_the_weights_or_of_a_report(monkeypatch, seeds, log_every_steps):
    """Whatever the time makes of them: one step at a time, seven, or all up to the next report."""
    config = small("two_moons_mpl_uda", log_every_steps=log_every_steps)
    datasets = data.load(config.data, seeds, ())
    program, found = prepare(config, datasets), []
    for steps in (1, 7, 1000):
        monkeypatch.setattr(
            "metapl.train.loop.ChunkPace", lambda steps=steps: SimpleNamespace(steps=steps, follow=lambda *_: 0)
        )
        told = []
        watch = lambda *news, told=told: told.append(jax.device_get(news))  # noqa: E731
        trained = train_on(config, seeds, datasets, Hooks(watch), program)
        found.append((jax.device_get(trained.weights), told))
    assert_same(found[0], found[2])
    assert_same(found[1], found[2])
    assert program.stages[0].advance._cache_size() == 1


def test_no_convolution_of_a_step_is_in_a_loop():
    """XLA for CPUs computes their gradients many times slower there."""
    config = configs.load("cifar10_4k_uda_small")
    functions = stage_functions(config, config.stages[0], models.build(config.model, 10), own_data=False)
    some = jax.ShapeDtypeStruct
    pictures, labels = some((40, 32, 32, 3), jnp.uint8), some((40,), jnp.int32)
    resident = loader.Resident(pictures, labels, pictures, labels)
    keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), 1))
    state = jax.eval_shape(functions.init, keys, None, None, resident, None)
    totals = jax.eval_shape(functions.zeros, state, keys, None, resident)
    step = jax.make_jaxpr(functions.advance)(state, totals, keys, None, resident, 3, 4)
    inside, anywhere = convolutions(step.jaxpr)
    assert anywhere > 0
    assert inside == 0
    assert functions.longest == 1


def convolutions(jaxpr, in_loop=False):
    """How many there are, in loops and in all."""
    inside = anywhere = 0
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        if name == "conv_general_dilated":
            inside, anywhere = inside + in_loop, anywhere + 1
        for part in jax.tree.leaves(list(equation.params.values())):
            if not hasattr(part, "eqns"):
                continue
            found = convolutions(part, in_loop or name in ("while", "scan"))
            inside, anywhere = inside + found[0], anywhere + found[1]
    return inside, anywhere


def test_a_report_is_the_mean_of_its_steps():
    told = {}
    for every in (1, 3):
        config = small("two_moons_supervised", log_every_steps=every)
        train(config, [4], watch=lambda *news, every=every: told.setdefault(every, []).append(news[2]["loss"][0]))
    single = np.array(told[1])
    np.testing.assert_allclose(told[3][:-1], single[:39].reshape(-1, 3).mean(1), rtol=1e-6)
    np.testing.assert_allclose(told[3][-1], single[39], rtol=1e-6)


def test_a_seed_does_not_feel_its_neighbours(three_seeds):
    alone = train(small("two_moons_mpl_uda"), seeds=[5])
    assert_same(alone.weights, jax.tree.map(lambda leaf: leaf[1:2], three_seeds.weights), rtol=2e-4, atol=2e-5)


def test_seeds_differ(three_seeds):
    kernel = three_seeds.weights.params["Dense_0"]["kernel"]
    assert not np.allclose(kernel[0], kernel[1], atol=1e-3)


def test_a_stage_hands_its_weights_to_the_next():
    """A second stage that hardly moves ends where the first one did."""
    config = small("two_moons_supervised")
    still = dataclasses.replace(config.stages[0], steps=1, method=Supervised(Optimizer(learning_rate=1e-9)))
    once = train(config, seeds=[4])
    twice = train(dataclasses.replace(config, stages=(*config.stages, still)), seeds=[4])
    assert_same(twice.weights, once.weights, atol=1e-6)


@pytest.mark.parametrize("seeds", [[4], [4, 5]])
def test_a_stage_hands_on_the_average_of_its_weights(seeds):
    config = small("two_moons_supervised", log_every_steps=15)
    averaging, raw = (
        dataclasses.replace(config.stages[0], method=Supervised(Optimizer(0.6, average_decay=decay)))
        for decay in (0.9, 0.0)
    )
    still = dataclasses.replace(config.stages[0], steps=1, method=Supervised(Optimizer(learning_rate=1e-9)))

    def after(*stages) -> Trained:
        return train(dataclasses.replace(config, stages=stages), seeds)

    average = after(averaging)
    assert_same(after(averaging, still).weights, average.weights, atol=1e-6)
    kernels = [trained.weights.params["Dense_0"]["kernel"] for trained in (average, after(raw))]
    assert not np.allclose(*kernels, atol=1e-4)


def test_a_stage_may_take_its_unlabelled_examples_from_the_labelled_set():
    """Appendix D.2: other unlabelled points change nothing then, and the labels' accuracy is that on labelled ones."""
    config = small("two_moons_mpl", log_every_steps=40)
    stages = tuple(dataclasses.replace(stage, unlabeled="labeled") for stage in config.stages)
    (moons,), told = data.load(config.data, [4], ()), []
    others = moons._replace(unlabeled=moons.unlabeled[::-1] + 1, truth=None)
    one, two = (
        train_on(dataclasses.replace(config, stages=stages), [4], [moon], Hooks(lambda *news: told.append(news[-1])))
        for moon in (moons, others)
    )
    assert_same(one.weights, two.weights)
    assert "pseudo_label_accuracy" in told[0]
    assert_same(told[0], told[1])
    plain = train_on(config, [4], [moons])
    kernels = [trained.weights.params["Dense_0"]["kernel"] for trained in (one, plain)]
    assert not np.allclose(*kernels, atol=1e-4)


def test_accuracy_counts_right_answers():
    config = small("two_moons_supervised")
    datasets = data.load(config.data, [4, 5], ())
    trained = train_on(config, [4, 5], datasets)
    inputs = np.stack([dataset.test for dataset in datasets])
    labels = np.stack([dataset.test_labels for dataset in datasets])
    for i, accuracy in enumerate(held_out.accuracies(trained, config.augmentation, datasets)):
        weights = jax.tree.map(lambda leaf, i=i: leaf[i], trained.weights)
        logits, _ = trained.network.apply(weights.params, weights.stats, inputs[i], train=False)
        right = sum(int(np.argmax(row)) == label for row, label in zip(np.asarray(logits), labels[i], strict=True))
        assert accuracy == right / 2000


DIGITS = """
log_every_steps = 200
[data]
name = "digits"
split = "digits@100#0"
[augmentation.weak]
flip = false
shift_pixels = 1
[augmentation.strong]
layers = 1
magnitude = 5.0
[model]
hidden = [64]
activation = "relu"
[[stages]]
steps = 400
labeled_batch = 50
unlabeled_batch = 50
method = {name = "uda", optimizer.learning_rate = 0.2}
"""


def test_pictures_go_the_same_way_for_one_seed_and_for_many():
    """Views, loop and evaluation on uint8 pictures that all seeds share; chance is 10 %."""
    config = configs.parse(DIGITS, "digits")
    datasets = data.load(config.data, [0, 1], ())
    assert datasets[0] is datasets[1]
    accuracies = held_out.accuracies(train_on(config, [0, 1], datasets), config.augmentation, datasets)
    assert np.all(accuracies > 0.7)
    alone = held_out.accuracies(train_on(config, [1], datasets[:1]), config.augmentation, datasets[:1])
    assert abs(alone[0] - accuracies[1]) < 0.05  # the same run, but for what rounding does in 400 steps


@pytest.mark.parametrize("preset", ["two_moons_mpl_uda", "two_moons_supervised"])
def test_seeds_one_after_another_give_what_they_give_together(preset):
    """TwoMoon: every seed has data of its own, which a group of one must bring along, too."""
    config, seeds = small(preset), [4, 5, 6]
    datasets = data.load(config.data, seeds, ())
    together = train_on(config, seeds, datasets)
    program = prepare(config, datasets)
    for i, seed in enumerate(seeds):
        alone = train_on(config, [seed], datasets[i : i + 1], program=program)
        same = jax.tree.map(lambda leaf, i=i: leaf[i : i + 1], together.weights)
        assert_same(alone.weights, same, rtol=2e-4, atol=2e-5)


def test_data_without_unlabelled_examples_are_refused_where_a_stage_needs_some():
    config = small("two_moons_uda")
    (dataset,) = data.load(config.data, [0], ())
    none = dataset._replace(unlabeled=dataset.unlabeled[:0])
    with pytest.raises(
        ConfigError, match=r"stages\.0\.method: uda learns from unlabelled examples, and these data have"
    ):
        prepare(config, [none])
    prepare(small("two_moons_supervised"), [none])


def test_two_views_that_would_be_the_same_are_refused():
    stages = (Stage(SimCLR(hidden=4, width=2), 2, 6, 8), Stage(steps=2))
    points = dataclasses.replace(Config(), stages=stages)
    (dataset,) = data.load(points.data, [0], ())
    with pytest.raises(ConfigError, match="simclr compares two views of each example, and these data have one: set"):
        prepare(points, [dataset])
    prepare(dataclasses.replace(points, augmentation=Augmentation(jitter=0.1)), [dataset])
    one_pair = dataset._replace(unlabeled=np.zeros((9, 3, 2), np.float16))
    with pytest.raises(ConfigError, match=r"data\.views to at least 2 for features"):
        prepare(points, [one_pair])
    prepare(points, [dataset._replace(unlabeled=np.zeros((9, 5, 2), np.float16))])
