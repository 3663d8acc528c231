"""Supervised learning's step against its equation, written out, in double precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl import algorithms, optim
from metapl.algorithms import supervised
from metapl.augment.cutmix import cut
from tests.algorithms.tiny import CLASSES, forward, tiny_network, tiny_views

pytestmark = pytest.mark.usefixtures("float64")


def targets_by_hand(labels, smoothing):
    """(1 − α) [c = y] + α / C."""
    rows = np.full((len(labels), CLASSES), smoothing / CLASSES)
    rows[np.arange(len(labels)), np.asarray(labels)] += 1 - smoothing
    return rows


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("view", ["weak", "strong"])
@pytest.mark.parametrize("mixup", [0.0, 0.7])
def test_one_step_by_hand(smoothing, view, mixup):
    views, network = tiny_views(), tiny_network()
    config = supervised.Supervised(optim.Optimizer(learning_rate=1.0), smoothing, view, mixup)
    algorithm = algorithms.build(config, network, 10)
    state = algorithm.init(jax.random.key(0), views, None)
    key = jax.random.key(1)
    after, metrics = algorithm.step(state, views, key)

    x = np.asarray(views.labeled if view == "weak" else views.labeled_strong)
    q = targets_by_hand(views.labels, smoothing)
    if mixup:
        part_key, order_key = jax.random.split(jax.random.fold_in(key, 100))
        part = np.asarray(jax.random.beta(part_key, mixup, mixup, (4,), jnp.float64))
        order = np.asarray(jax.random.permutation(order_key, 4))
        x = np.array([part[i] * x[i] + (1 - part[i]) * x[order[i]] for i in range(4)])
        q = np.array([part[i] * q[i] + (1 - part[i]) * q[order[i]] for i in range(4)])

    def loss(params):
        return -jnp.sum(q * jax.nn.log_softmax(forward(params, jnp.asarray(x)))) / 4

    gradient = jax.grad(loss)(state.params)
    jax.tree.map(
        lambda a, b, g: np.testing.assert_allclose(a, b - g, rtol=1e-10, atol=1e-12),
        after.params,
        state.params,
        gradient,
    )
    np.testing.assert_allclose(metrics["loss"], loss(state.params), rtol=1e-12)
    norm = np.sqrt(sum(float(jnp.sum(leaf**2)) for leaf in jax.tree.leaves(gradient)))
    np.testing.assert_allclose(metrics["gradient_norm"], norm, rtol=1e-12)


def test_sam_by_hand():
    """The gradient at θ + ρ ∇ / ‖∇‖ on the same batch; statistics and numbers are those at θ."""
    views, network = tiny_views(), tiny_network()
    config = supervised.Supervised(optim.Optimizer(learning_rate=1.0, sam=0.7))
    algorithm = algorithms.build(config, network, 10)
    state = algorithm.init(jax.random.key(0), views, None)
    after, metrics = algorithm.step(state, views, jax.random.key(1))

    def loss(params):
        log_p = jax.nn.log_softmax(forward(params, views.labeled))
        return -sum(log_p[i, y] for i, y in enumerate(views.labels)) / 4

    gradient = jax.grad(loss)(state.params)
    norm = np.sqrt(sum(float(jnp.sum(leaf**2)) for leaf in jax.tree.leaves(gradient)))
    worst = jax.tree.map(lambda p, g: p + 0.7 * g / norm, state.params, gradient)
    expected = jax.tree.map(lambda p, g: p - g, state.params, jax.grad(loss)(worst))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), after.params, expected)
    np.testing.assert_allclose(metrics["loss"], loss(state.params), rtol=1e-12)


def test_cutmix_by_hand():
    """The batch and the labels that `cut` gives for the step's key; a linear network on tiny pictures."""
    pictures = jax.random.normal(jax.random.key(5), (4, 4, 4, 1))
    views = tiny_views()._replace(labeled=pictures)

    def flat(params, stats, inputs, *, train, key=None):
        return forward(params, inputs.reshape(len(inputs), -1)[:, :2]), stats

    network = tiny_network()._replace(apply=flat)
    config = supervised.Supervised(optim.Optimizer(learning_rate=1.0), cutmix=1.0)
    algorithm = algorithms.build(config, network, 10)
    state = algorithm.init(jax.random.key(0), views, None)
    after, _ = algorithm.step(state, views, jax.random.key(1))
    x, mixture = cut(jax.random.fold_in(jax.random.key(1), 100), pictures, 1.0)
    hot = np.eye(CLASSES)[np.asarray(views.labels)]
    part = np.asarray(mixture.part)[:, None]
    q = part * hot + (1 - part) * hot[np.asarray(mixture.order)]

    def loss(params):
        return -jnp.sum(q * jax.nn.log_softmax(forward(params, x.reshape(4, -1)[:, :2]))) / 4

    expected = jax.tree.map(lambda p, g: p - g, state.params, jax.grad(loss)(state.params))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), after.params, expected)


def test_views_without_a_strong_view_of_the_labelled_examples_are_refused():
    views = tiny_views()._replace(labeled_strong=None)
    algorithm = algorithms.build(supervised.Supervised(view="strong"), tiny_network(), 10)
    state = algorithm.init(jax.random.key(0), views, None)
    with pytest.raises(ValueError, match="no strong view of the labelled"):
        algorithm.step(state, views, jax.random.key(1))
