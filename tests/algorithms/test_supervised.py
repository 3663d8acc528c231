"""Supervised learning's step against its equation, written out, in double precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl import algorithms, optim
from metapl.algorithms import supervised
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


def test_views_without_a_strong_view_of_the_labelled_examples_are_refused():
    views = tiny_views()._replace(labeled_strong=None)
    algorithm = algorithms.build(supervised.Supervised(view="strong"), tiny_network(), 10)
    state = algorithm.init(jax.random.key(0), views, None)
    with pytest.raises(ValueError, match="no strong view of the labelled"):
        algorithm.step(state, views, jax.random.key(1))
