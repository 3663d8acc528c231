"""What every method must do, whichever it is: a new row in the table is tested by itself."""

import ast
import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl import algorithms, data, models
from metapl.algorithms.losses import cross_entropy
from metapl.algorithms.supervised import Supervised
from metapl.augment.randaugment import RandAugment
from metapl.augment.views import Augmentation, WeakView
from metapl.config import Config, Stage
from metapl.data.sources.digits import Digits
from metapl.evaluate import held_out
from metapl.metrics import REGISTRY
from metapl.models.mlp import MLP
from metapl.optim import Optimizer
from metapl.schema import ConfigError, validate
from metapl.scores import over_known, score
from metapl.train.loop import Hooks, train
from metapl.types import PSEUDO_LABELS, Algorithm, Array, MethodConfig, Metrics, PyTree, Views, Weights
from tests.contract.declared import small, with_declared

METHODS = sorted(algorithms.METHODS, key=lambda kind: kind.name)
pytestmark = pytest.mark.parametrize("kind", METHODS, ids=lambda kind: kind.name)


NETWORK = models.build(MLP(hidden=(8,), init_range=0.5), classes=2)


class Begun(NamedTuple):
    """A method before its first step."""

    algorithm: Algorithm
    state: PyTree
    views: Views
    step: Callable[..., tuple[PyTree, Metrics]]  # compiled once for all tests of a file


@functools.cache
def blobs(kind: type[MethodConfig]) -> Views:
    """Two blobs that a line separates."""
    keys = jax.random.split(jax.random.key(3), 3)
    labels = jnp.arange(8, dtype=jnp.int32) % 2
    others = jnp.arange(32, dtype=jnp.int32) % 2
    x_l = 3.0 * (2 * labels[:, None] - 1).astype(jnp.float32) + jax.random.normal(keys[0], (8, 2))
    x_u = 3.0 * (2 * others[:, None] - 1).astype(jnp.float32) + jax.random.normal(keys[1], (32, 2))
    x_s = x_u + 0.1 * jax.random.normal(keys[2], x_u.shape)
    if kind().needs_pictures:  # of one colour, with as many channels as a point has coordinates
        x_l, x_u, x_s = (jnp.broadcast_to(x[:, None, None, :], (len(x), 6, 6, 2)) for x in (x_l, x_u, x_s))
    views = Views(x_l, labels, x_u, x_s, x_l + 0.1, fairly_sure(labels), fairly_sure(others))
    return with_declared(views, kind())


def fairly_sure(labels: Array) -> Array:
    """What a large teacher might say."""
    return 0.1 + 0.8 * jax.nn.one_hot(labels, 2)


@functools.cache
def begin(kind: type[MethodConfig], **settings: object) -> Begun:
    algorithm, views = algorithms.build(small(kind, **settings), NETWORK, 100), blobs(kind)
    state = algorithm.init(jax.random.key(0), views, good_teacher(views))
    return Begun(algorithm, state, views, jax.jit(algorithm.step))


@jax.jit
def good_teacher(views: Views) -> Weights:
    def loss(params: PyTree) -> Array:
        return cross_entropy(views.labels, NETWORK.apply(params, {}, views.labeled, train=False)[0])

    def improve(_: Array, params: PyTree) -> PyTree:
        return jax.tree.map(lambda p, g: p - 0.5 * g, params, jax.grad(loss)(params))

    start = NETWORK.init(jax.random.key(7), views.weak)
    return start._replace(params=jax.lax.fori_loop(0, 50, improve, start.params))


def test_a_step_keeps_the_states_shape_and_gives_finite_numbers(kind):
    _, state, views, step = begin(kind)
    after, metrics = step(state, views, jax.random.key(1))
    assert jax.tree.structure(after) == jax.tree.structure(state)
    jax.tree.map(lambda a, b: np.testing.assert_equal((a.shape, a.dtype), (b.shape, b.dtype)), after, state)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((after, metrics)))
    assert any(name.endswith("gradient_norm") for name in metrics)
    assert (PSEUDO_LABELS in metrics) == (kind.uses_unlabeled and kind.uses_labels)
    labels = metrics.pop(PSEUDO_LABELS, jnp.full((32, 2), 0.5))
    assert labels.shape == (32, 2)
    np.testing.assert_allclose(labels.sum(-1), 1, rtol=1e-5)
    assert all(value.shape == () for value in metrics.values())


def test_what_a_run_reports_is_in_the_registry_of_metrics(kind):
    _, state, views, step = begin(kind)
    _, metrics = jax.eval_shape(step, state, views, jax.random.key(1))
    names = jax.eval_shape(lambda values: over_known(score(values, jnp.zeros(32, jnp.int32))), metrics)
    declared = {metric.name for metric in kind.metrics}
    assert [name for name in names if name not in REGISTRY and name not in declared] == []


def test_the_same_key_gives_the_same_bits(kind):
    """Other unlabelled examples give others, if the method says that it looks at them."""
    _, state, views, step = begin(kind)
    one, two = (step(state, views, jax.random.key(1)) for _ in range(2))
    jax.tree.map(np.testing.assert_array_equal, one, two)
    # Not by 1 each: what compares directions may not feel a shift.
    other = step(state, views._replace(weak=1.5 * views.weak + 1, strong=2 * views.strong - 1), jax.random.key(1))
    same = jax.tree.map(lambda a, b: bool(np.array_equal(a, b)), one, other)
    assert all(jax.tree.leaves(same)) == (not kind.uses_unlabeled)


def test_vmap_changes_nothing_but_rounding(kind):
    algorithm, state, views, step = begin(kind)
    alone = step(state, views, jax.random.key(1))
    twice = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), (state, views))
    mapped = jax.jit(jax.vmap(algorithm.step))(*twice, jnp.stack([jax.random.key(1)] * 2))
    second = jax.tree.map(lambda leaf: leaf[1], mapped)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), alone, second)


def test_it_learns_to_tell_two_blobs_apart(kind):
    begun = begin(kind)
    weights, views = after_300_steps(begun), begun.views
    if not kind.uses_labels:
        finetuning = begin(Supervised)
        state = finetuning.algorithm.init(jax.random.key(0), views, weights)
        weights = after_300_steps(finetuning._replace(state=state, views=views))
    guesses = NETWORK.apply(weights.params, weights.stats, views.labeled, train=False)[0].argmax(-1)
    assert np.mean(guesses == views.labels) == 1.0


def after_300_steps(begun: Begun) -> Weights:
    state = begun.state
    for i in range(300):
        state, _ = begun.step(state, begun.views, jax.random.key(i))
    return begun.algorithm.predictor(state)


def test_it_learns_digits_beyond_chance(kind):
    """100 labels, the rest unlabelled; chance is 10 %."""
    own = {field.name: Optimizer(0.3) for field in dataclasses.fields(kind) if field.type is Optimizer}
    supervised = Stage(Supervised(Optimizer(0.3)), 300, 50, 50)
    before, after = [supervised] * kind.needs_start, [supervised] * (not kind.uses_labels)
    config = Config(
        data=Digits(split="digits@100#0"),
        model=MLP(hidden=(64,), activation="relu"),
        augmentation=Augmentation(
            weak=WeakView(flip=False, shift_pixels=0), strong=RandAugment(layers=1, ops=("solarize",))
        ),
        stages=(*before, Stage(small(kind, **own), 300, 50, 50), *after),
    )
    datasets = data.load(config.data, [0], ())
    told = []
    trained = train(config, [0], datasets, Hooks(lambda *news: told.append(news[-1])))
    assert held_out.accuracies(trained, config.augmentation, datasets)[0] > 0.6
    labels = told[-1].get("pseudo_label_accuracy")
    assert labels is None or labels[0] > 0.6  # what the truth says of them: it is known here


def test_an_average_is_evaluated_and_training_does_not_feel_it(kind):
    """β = min(0.25, (1 + t) / (10 + t)): 2/11, 3/12, then 0.25; the weights it averages are those of a run without."""
    own = {field.name: Optimizer(average_decay=0.25) for field in dataclasses.fields(kind) if field.type is Optimizer}
    if "decay" in {field.name for field in dataclasses.fields(kind)}:  # the method keeps an average by itself
        with pytest.raises(ConfigError, match="average_decay must be 0"):
            validate(kind(**own))
        return
    (algorithm, state, views, step), (plain, plain_state, _, plain_step) = begin(kind, **own), begin(kind)
    average = plain.predictor(plain_state)
    for i, share in enumerate([2 / 11, 0.25, 0.25, 0.25]):
        state, _ = step(state, views, jax.random.key(i))
        plain_state, _ = plain_step(plain_state, views, jax.random.key(i))
        average = jax.tree.map(lambda a, w, b=share: b * a + (1 - b) * w, average, plain.predictor(plain_state))
    evaluated = algorithm.predictor(state)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), evaluated, average)
    raw = plain.predictor(plain_state).params
    assert not all(np.allclose(*pair) for pair in zip(*map(jax.tree.leaves, (evaluated.params, raw)), strict=True))


def test_its_settings_say_what_each_field_does(kind):
    body = ast.parse(inspect.getsource(inspect.getmodule(kind))).body
    settings = next(node for node in body if isinstance(node, ast.ClassDef) and node.name == kind.__name__)
    for field, after in zip(settings.body, [*settings.body[1:], None], strict=True):
        simple = isinstance(field, ast.AnnAssign) and ast.unparse(field.annotation).startswith(("Annotated", "Literal"))
        assert not simple or isinstance(after, ast.Expr), f"{kind.__name__}.{field.target.id} has no docstring"


def test_who_is_shown_as_the_labeler_gives_the_labels(kind):
    fields = {field.name for field in dataclasses.fields(kind)}
    algorithm, state, views, step = begin(kind, **({"labels": "soft"} if "labels" in fields else {}))
    if algorithm.labeler is None:
        return
    after, metrics = step(state, views, jax.random.key(5))
    weights, corrector = algorithm.labeler.weights(state), algorithm.labeler.corrector
    shown = views.predictions if corrector else views.weak
    logits, _ = (corrector or NETWORK).apply(weights.params, weights.stats, shown, train=False)
    np.testing.assert_array_equal(logits.argmax(-1), metrics[PSEUDO_LABELS].argmax(-1))
    learns_itself = algorithm.labeler.weights(after).params is getattr(after, "params", None)
    assert algorithm.labeler.teaches == (not learns_itself)
