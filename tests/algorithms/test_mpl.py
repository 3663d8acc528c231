"""The whole step against an independent one, and what must hold of the labels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import two_moons as oracle
from flax import linen as nn

from metapl import data, models, optim
from metapl.algorithms import losses, mpl, supervised, uda
from metapl.algorithms.feedback import Feedback
from metapl.data.two_moons import TwoMoons
from metapl.models.mlp import MLP
from metapl.types import Network, Views, Weights

SIZES = (2, 8, 8, 2)


def layers(params) -> oracle.Layers:
    """The package's weights as the example's."""
    return [(params[f"Dense_{i}"]["kernel"], params[f"Dense_{i}"]["bias"]) for i in range(len(params))]


@pytest.fixture
def views() -> Views:
    (moons,) = data.load(TwoMoons(), [3], ())
    x_l, x_u = jnp.asarray(moons.labeled), jnp.asarray(moons.unlabeled[:32])
    return Views(x_l, jnp.asarray(moons.labels), x_u, x_u + 0.1)


@pytest.fixture
def network():
    return models.build(MLP(init_range=1.0), classes=2)


def test_one_step_is_the_examples_step(views, network):
    config = mpl.MPL(
        feedback=Feedback(weight=0.7), teacher=optim.Optimizer(0.2), student=optim.Optimizer(learning_rate=0.2)
    )
    algorithm = mpl.build(config, network, steps=10)
    state = algorithm.init(jax.random.key(0), views, None)._replace(baseline=jnp.float32(0.3))
    key = jax.random.key(1)
    after, metrics = jax.jit(algorithm.step)(state, views, key)

    teacher, student = layers(state.teacher.params), layers(state.student.params)
    guesses = jax.random.categorical(jax.random.split(key, 4)[1], oracle.logits(teacher, views.weak))
    assert 0 < np.mean(guesses) < 1  # both labels are drawn, so the step has something to get wrong
    new_teacher, new_student, baseline, cosine = oracle.mpl_step(
        teacher, student, jnp.float32(0.3), views.labeled, views.labels, views.weak, guesses, 0.7, rate=0.2
    )
    close = {"rtol": 1e-5, "atol": 1e-6}
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, **close), layers(after.teacher.params), new_teacher)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, **close), layers(after.student.params), new_student)
    np.testing.assert_allclose(after.baseline, baseline, rtol=1e-5)
    np.testing.assert_allclose(metrics["feedback"], cosine, rtol=1e-4)


def test_hard_labels_are_drawn_with_the_teachers_probabilities():
    logits = jnp.log(jnp.array([[0.2, 0.8], [0.9, 0.1]]))
    keys = jax.random.split(jax.random.key(0), 4000)
    drawn = jax.vmap(lambda key: mpl._draw(mpl.MPL(), key, logits))(keys)
    assert set(np.unique(drawn)) == {0.0, 1.0}
    np.testing.assert_allclose(drawn.mean(0), jnp.exp(logits), atol=0.03)


def test_the_student_sees_no_label_but_the_teachers(views, network):
    """Other labelled points change the teacher, and leave the student's step alone."""
    algorithm = mpl.build(mpl.MPL(), network, steps=10)
    state = algorithm.init(jax.random.key(0), views, None)
    step = jax.jit(algorithm.step)
    one, _ = step(state, views, jax.random.key(1))
    two, _ = step(state, views._replace(labels=1 - views.labels), jax.random.key(1))
    jax.tree.map(np.testing.assert_array_equal, one.student.params, two.student.params)
    assert not np.allclose(one.teacher.params["Dense_0"]["kernel"], two.teacher.params["Dense_0"]["kernel"], atol=1e-8)


def test_the_consistency_term_is_udas(views, network):
    """With feedback off, the teacher's gradient is that of CE + λ · UDA, written out."""
    config = mpl.MPL(
        feedback=Feedback("none"), consistency=losses.Consistency(2.5, 0.5), teacher=optim.Optimizer(learning_rate=1.0)
    )
    algorithm = mpl.build(config, network, steps=10)
    state = algorithm.init(jax.random.key(0), views, None)
    after, _ = jax.jit(algorithm.step)(state, views, jax.random.key(1))

    def objective(net):
        sharpened = jax.nn.softmax(oracle.logits(layers(state.teacher.params), views.weak) / 0.5)
        uda = -jnp.mean(jnp.sum(sharpened * jax.nn.log_softmax(oracle.logits(net, views.strong)), axis=1))
        return oracle.cross_entropy(net, views.labeled, views.labels) + 2.5 * uda

    expected = oracle.sgd(layers(state.teacher.params), jax.grad(objective)(layers(state.teacher.params)), rate=1.0)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), layers(after.teacher.params), expected)


def test_a_stage_before_starts_the_teacher_and_not_the_student(views, network):
    algorithm = mpl.build(mpl.MPL(), network, steps=10)
    start = network.init(jax.random.key(9), views.weak)
    state = algorithm.init(jax.random.key(0), views, start)
    jax.tree.map(np.testing.assert_array_equal, state.teacher.params, start.params)
    assert not np.allclose(state.student.params["Dense_0"]["kernel"], start.params["Dense_0"]["kernel"])
    evaluated = algorithm.predictor(state)
    jax.tree.map(np.testing.assert_array_equal, evaluated.params, state.student.params)


@pytest.mark.parametrize("view", ["weak", "strong"])
def test_the_student_learns_from_the_view_it_is_told(views, network, view):
    algorithm = mpl.build(mpl.MPL(student_view=view), network, steps=10)
    state = algorithm.init(jax.random.key(0), views, None)
    one, _ = algorithm.step(state, views, jax.random.key(1))
    two, _ = algorithm.step(state, views._replace(strong=-views.strong), jax.random.key(1))
    same = np.array_equal(one.student.params["Dense_0"]["kernel"], two.student.params["Dense_0"]["kernel"])
    assert same == (view == "weak")


class Pictures(nn.Module):
    """Convolution, batch norm, dropout: all that makes two programs of one method part ways."""

    @nn.compact
    def __call__(self, x, *, train):
        x = nn.relu(nn.BatchNorm(use_running_average=not train, momentum=0.9)(nn.Conv(8, (3, 3))(x)))
        x = nn.relu(nn.BatchNorm(use_running_average=not train, momentum=0.9)(nn.Conv(8, (3, 3), strides=2)(x)))
        x = nn.Dropout(0.3, deterministic=not train)(x.mean((1, 2)))
        return nn.Dense(3)(x)


def picture_network() -> Network:
    module = Pictures()

    def init(key, inputs):
        variables = module.init({"params": key}, inputs, train=False)
        return Weights(variables["params"], variables["batch_stats"])

    def apply(params, stats, inputs, *, train, key=None):
        variables = {"params": params, "batch_stats": stats}
        logits, changed = module.apply(variables, inputs, train=train, rngs={"dropout": key}, mutable=["batch_stats"])
        return logits, changed["batch_stats"]

    return Network(init, apply)


def picture_views(step: int) -> Views:
    keys = jax.random.split(jax.random.key(100 + step), 4)
    shapes = ((8, 12, 12, 3), (16, 12, 12, 3), (16, 12, 12, 3))
    x_l, x_u, x_s = (jax.random.normal(key, shape) for key, shape in zip(keys, shapes, strict=False))
    return Views(x_l, jax.random.randint(keys[3], (8,), 0, 3), x_u, x_s)


def point_views(step: int) -> Views:
    views = picture_views(step)
    return jax.tree.map(lambda leaf: leaf[:, 0, 0, :2] if leaf.ndim > 1 else leaf, views)


KINDS = {
    "points": (models.build(MLP(init_range=1.0), classes=3), point_views),
    "pictures": (picture_network(), picture_views),
}


@pytest.mark.parametrize("method", ["supervised", "uda"])
@pytest.mark.parametrize("inputs", KINDS)
def test_without_feedback_the_teacher_is_its_own_method_bit_for_bit(inputs, method):
    network, views_at = KINDS[inputs]
    optimizer = optim.Optimizer(0.2, "cosine", 2, momentum=0.9, nesterov=True, weight_decay=1e-3, average_decay=0.9)
    consistency = losses.Consistency(2.5 if method == "uda" else 0.0, 0.7)
    control = mpl.build(
        mpl.MPL(Feedback("none"), consistency=consistency, label_smoothing=0.1, teacher=optimizer), network, 20
    )
    if method == "uda":
        alone = uda.build(uda.UDA(consistency, optimizer, label_smoothing=0.1), network, 20)
    else:
        alone = supervised.build(supervised.Supervised(optimizer, label_smoothing=0.1), network, 20)
    state, learner = (algorithm.init(jax.random.key(5), views_at(0), None) for algorithm in (control, alone))
    steps = jax.jit(control.step), jax.jit(alone.step)
    for i in range(20):
        state, _ = steps[0](state, views_at(i), jax.random.key(i))
        learner, _ = steps[1](learner, views_at(i), jax.random.key(i))
        jax.tree.map(np.testing.assert_array_equal, state.teacher, learner)
