"""A fixed teacher, its labels, and the threshold."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl import models, optim
from metapl.algorithms import pseudo_labels
from metapl.models.mlp import MLP
from metapl.types import Views


@pytest.fixture
def network():
    return models.build(MLP(hidden=(8,), init_range=2.0), classes=2)


@pytest.fixture
def views() -> Views:
    x = jax.random.normal(jax.random.key(5), (16, 2))
    return Views(x[:4], jnp.zeros(4, jnp.int32), x, x)


def loss_by_hand(network, teacher, student, views, labels, threshold, smoothing=0.0):
    p = jax.nn.softmax(network.apply(teacher.params, {}, views.weak, train=False)[0])
    log_s = jax.nn.log_softmax(network.apply(student, {}, views.weak, train=False)[0])
    q = jax.nn.one_hot(p.argmax(-1), 2) if labels == "hard" else p
    q = (1 - smoothing) * q + smoothing / 2
    return -jnp.sum(jnp.where(p.max(-1, keepdims=True) >= threshold, q * log_s, 0.0)) / len(p)


@pytest.mark.parametrize("labels", ["hard", "soft"])
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_one_step_by_hand(network, views, labels, share):
    teacher = network.init(jax.random.key(1), views.weak)
    confidence = jax.nn.softmax(network.apply(*teacher, views.weak, train=False)[0]).max(-1)
    threshold = 0.0 if share == 1 else float(jnp.median(confidence))
    config = pseudo_labels.PseudoLabels(labels, threshold, optimizer=optim.Optimizer(learning_rate=1.0))
    algorithm = pseudo_labels.build(config, network, steps=10)
    state = algorithm.init(jax.random.key(0), views, teacher)
    after, metrics = jax.jit(algorithm.step)(state, views, jax.random.key(2))
    gradient = jax.jit(jax.grad(lambda s: loss_by_hand(network, teacher, s, views, labels, threshold)))(
        state.student.params
    )
    expected = jax.tree.map(jnp.subtract, state.student.params, gradient)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), after.student.params, expected)
    jax.tree.map(np.testing.assert_array_equal, after.teacher, teacher)
    assert metrics["mask_rate"] == share


def test_given_labels_are_smoothed(network, views):
    teacher = network.init(jax.random.key(1), views.weak)
    config = pseudo_labels.PseudoLabels(label_smoothing=0.3, optimizer=optim.Optimizer(learning_rate=1.0))
    algorithm = pseudo_labels.build(config, network, steps=10)
    state = algorithm.init(jax.random.key(0), views, teacher)
    after, metrics = jax.jit(algorithm.step)(state, views, jax.random.key(2))
    loss, gradient = jax.jit(jax.value_and_grad(lambda s: loss_by_hand(network, teacher, s, views, "hard", 0.0, 0.3)))(
        state.student.params
    )
    expected = jax.tree.map(jnp.subtract, state.student.params, gradient)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), after.student.params, expected)
    np.testing.assert_allclose(metrics["student_loss"], loss, rtol=1e-5)


def test_true_labels_are_combined_with_pseudo_labels(network, views):
    teacher, weight, smoothing = network.init(jax.random.key(1), views.weak), 0.7, 0.2
    config = pseudo_labels.PseudoLabels(
        labeled_weight=weight, label_smoothing=smoothing, optimizer=optim.Optimizer(learning_rate=1.0)
    )
    algorithm = pseudo_labels.build(config, network, steps=10)
    state = algorithm.init(jax.random.key(0), views, teacher)
    after, metrics = jax.jit(algorithm.step)(state, views, jax.random.key(2))
    q = (1 - smoothing) * jnp.eye(2)[views.labels] + smoothing / 2

    def true_loss(student):
        log_s = jax.nn.log_softmax(network.apply(student, {}, views.labeled, train=False)[0])
        return -jnp.sum(q * log_s) / len(q)

    def given_loss(student):
        return loss_by_hand(network, teacher, student, views, "hard", 0.0, smoothing)

    start = state.student.params
    gradient = jax.jit(jax.grad(lambda student: given_loss(student) + weight * true_loss(student)))(start)
    expected = jax.tree.map(jnp.subtract, start, gradient)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), after.student.params, expected)
    np.testing.assert_allclose(metrics["student_loss"], given_loss(start), rtol=1e-5)
    np.testing.assert_allclose(metrics["student_labeled_loss"], true_loss(start), rtol=1e-5)
