"""One step of Reduced MPL against a direct computation, and where its corrector starts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl import models, optim
from metapl.algorithms import reduced_mpl
from metapl.algorithms.feedback import Feedback
from metapl.models.mlp import MLP
from metapl.schema import ConfigError, validate
from metapl.types import Views

TEACHER_RATE, STUDENT_RATE, WEIGHT = 0.2, 0.3, 0.7


@pytest.fixture
def network():
    return models.build(MLP(hidden=(8,), init_range=1.0), classes=3)


@pytest.fixture
def views() -> Views:
    keys = jax.random.split(jax.random.key(3), 5)
    x_l, x_u = jax.random.normal(keys[0], (5, 2)), jax.random.normal(keys[1], (7, 2))
    strong = x_u + jax.random.normal(keys[2], x_u.shape)
    p_l, p_u = (jax.nn.softmax(2 * jax.random.normal(key, (n, 3))) for key, n in zip(keys[3:], (5, 7), strict=True))
    return Views(x_l, jnp.arange(5, dtype=jnp.int32) % 3, x_u, strong, labeled_predictions=p_l, predictions=p_u)


def student(params, x):
    hidden = jax.nn.sigmoid(x @ params["Dense_0"]["kernel"] + params["Dense_0"]["bias"])
    return jax.nn.log_softmax(hidden @ params["Dense_1"]["kernel"] + params["Dense_1"]["bias"])


def corrector(params, p, residual):
    x = p
    for name in ("hidden1", "hidden2"):
        x = jnp.maximum(x @ params[name]["kernel"] + params[name]["bias"], 0)
    x = x @ params["head"]["kernel"] + params["head"]["bias"]
    return jax.nn.log_softmax(x + jnp.log(p + 1e-6) if residual else x)


def config(**changes) -> reduced_mpl.ReducedMPL:
    settings = {
        "hidden": 6,
        "layers": 3,
        "supervised_weight": WEIGHT,
        "teacher": optim.Optimizer(TEACHER_RATE),
        "student": optim.Optimizer(STUDENT_RATE),
    }
    return reduced_mpl.ReducedMPL(**settings | changes)


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("view", ["weak", "strong"])
def test_one_step_is_algorithm_1_with_a_corrector_for_the_teacher(views, network, residual, view):
    algorithm = reduced_mpl.build(
        config(residual=residual, student_view=view, feedback=Feedback("dot")), network, steps=10
    )
    state = algorithm.init(jax.random.key(0), views, None)
    noise = iter(jax.random.split(jax.random.key(5), 20))
    params = jax.tree.map(lambda leaf: leaf + 0.3 * jax.random.normal(next(noise), leaf.shape), state.teacher.params)
    state = state._replace(teacher=state.teacher._replace(params=params), baseline=jnp.float32(0.01))
    key = jax.random.key(1)
    after, metrics = jax.jit(algorithm.step)(state, views, key)

    guesses = jax.random.categorical(jax.random.split(key, 3)[0], corrector(params, views.predictions, residual))
    assert len(set(np.asarray(guesses).tolist())) > 1
    x_u, rows, l_rows = getattr(views, view), jnp.arange(7), jnp.arange(5)

    def given_loss(p):
        return -jnp.mean(student(p, x_u)[rows, guesses])

    def true_loss(p):
        return -jnp.mean(student(p, views.labeled)[l_rows, views.labels])

    g = jax.jit(jax.grad(given_loss))(state.student.params)
    new_student = jax.tree.map(lambda p, slope: p - STUDENT_RATE * slope, state.student.params, g)
    v = jax.jit(jax.grad(true_loss))(new_student)
    h = STUDENT_RATE * sum(jnp.vdot(a, b) for a, b in zip(*map(jax.tree.leaves, (v, g)), strict=True))

    def objective(p):
        credited = -jnp.sum(corrector(p, views.predictions, residual)[rows, guesses])
        own = -jnp.mean(corrector(p, views.labeled_predictions, residual)[l_rows, views.labels])
        return (h - 0.01) * credited + WEIGHT * own

    new_teacher = jax.tree.map(lambda p, slope: p - TEACHER_RATE * slope, params, jax.jit(jax.grad(objective))(params))
    close = {"rtol": 1e-4, "atol": 1e-6}
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, **close), after.student.params, new_student)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, **close), after.teacher.params, new_teacher)
    np.testing.assert_allclose(metrics["feedback"], h, rtol=1e-4)
    np.testing.assert_allclose(after.baseline, 0.99 * 0.01 + 0.01 * h, rtol=1e-4)


def test_a_student_with_true_labels_learns_both_and_reports_the_feedback_of_pseudo_labels(views, network):
    weight = 0.6
    algorithm = reduced_mpl.build(config(labeled_weight=weight, feedback=Feedback("dot")), network, steps=10)
    state = algorithm.init(jax.random.key(0), views, None)
    after, metrics = jax.jit(algorithm.step)(state, views, jax.random.key(1))
    guesses = jax.random.categorical(
        jax.random.split(jax.random.key(1), 3)[0], corrector(state.teacher.params, views.predictions, residual=True)
    )

    def given_loss(p):
        return -jnp.mean(student(p, views.strong)[jnp.arange(7), guesses])

    def true_loss(p):
        return -jnp.mean(student(p, views.labeled)[jnp.arange(5), views.labels])

    start = state.student.params
    g, g_true = jax.jit(jax.grad(given_loss))(start), jax.jit(jax.grad(true_loss))(start)
    expected = jax.tree.map(lambda p, a, b: p - STUDENT_RATE * (a + weight * b), start, g, g_true)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), after.student.params, expected)
    v = jax.jit(jax.grad(true_loss))(expected)
    h = STUDENT_RATE * sum(jnp.vdot(a, b) for a, b in zip(*map(jax.tree.leaves, (v, g)), strict=True))
    np.testing.assert_allclose(metrics["feedback"], h, rtol=1e-4)
    np.testing.assert_allclose(metrics["student_labeled_loss"], true_loss(start), rtol=1e-5)


def test_without_feedback_soft_labels_of_a_fresh_corrector_are_the_large_teachers(views, network):
    """The student's first step is distillation: T' starts as the identity."""
    settings = config(labels="soft", feedback=Feedback("none"))
    algorithm = reduced_mpl.build(settings, network, steps=10)
    state = algorithm.init(jax.random.key(0), views, None)
    after, metrics = jax.jit(algorithm.step)(state, views, jax.random.key(1))

    def distillation(params):
        return -jnp.mean(jnp.sum(views.predictions * student(params, views.strong), axis=1))

    gradient = jax.jit(jax.grad(distillation))(state.student.params)
    expected = jax.tree.map(lambda p, g: p - STUDENT_RATE * g, state.student.params, gradient)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), after.student.params, expected)
    assert metrics["teacher_kept_answers"] == 1.0


def test_an_estimator_for_other_labels_is_refused():
    with pytest.raises(ConfigError, match="'cosine' is right for hard labels only"):
        validate(config(labels="soft"))
