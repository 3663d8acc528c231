"""LGA's step against its equations, with the distance differentiated by its labels, in double precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from metapl.algorithms import lga
from tests.algorithms.single_steps import ROWS, SGD, TOTAL, assert_close, begin, descended, labeled_loss, log_p, seen

pytestmark = pytest.mark.usefixtures("float64")
BEFORE = np.random.default_rng(0).dirichlet([1, 1, 1], TOTAL)


def projected(point):
    """The nearest distribution, by a general solver."""
    sum_is_one = {"type": "eq", "fun": lambda y: y.sum() - 1}
    near = minimize(
        lambda y: ((y - point) ** 2).sum(), np.full(3, 1 / 3), bounds=[(0, 1)] * 3, constraints=sum_is_one, tol=1e-14
    )
    return near.x


@pytest.mark.parametrize("vat_weight", [0.0, 0.7])
def test_one_step_by_hand(vat_weight):
    views = seen()
    method = lga.LGA(2.5, label_rate=0.4, vat_weight=vat_weight, radius=0.4, optimizer=SGD)
    algorithm, state = begin(method, BEFORE)
    after, metrics = algorithm.step(state, views, jax.random.key(1))
    theta = state.params

    def imputed(params, labels):
        return -jnp.sum(labels * log_p(params, views.weak)) / 8

    def distance(labels):
        g_l, g_u = jax.jit(jax.grad(labeled_loss))(theta, views), jax.jit(jax.grad(imputed))(theta, labels)
        return sum(jnp.sum((a - b) ** 2) for a, b in zip(*map(jax.tree.leaves, (g_l, g_u)), strict=True)) / 2

    slope = np.array(jax.jit(jax.grad(distance))(jnp.asarray(BEFORE[ROWS])))
    slope -= slope.mean(-1, keepdims=True)
    moved = BEFORE[ROWS] - 0.4 * slope / np.linalg.norm(slope, axis=-1).mean()
    labels = np.array([projected(point) for point in moved])
    np.testing.assert_allclose(after.memory[ROWS], labels, atol=1e-6)
    np.testing.assert_array_equal(after.memory[np.setdiff1d(np.arange(TOTAL), ROWS)], BEFORE[[2, 5, 6, 8]])
    np.testing.assert_allclose(metrics["label_distance"], distance(jnp.asarray(BEFORE[ROWS])))

    labels = np.asarray(after.memory)[ROWS]  # to the last digit: the solver above stops earlier
    if not vat_weight:
        expected = descended(theta, lambda params: labeled_loss(params, views) + 2.5 * imputed(params, labels))
        assert_close(after.params, expected)
    else:
        assert metrics["consistency_loss"] > 0


def test_labels_move_to_the_classes_that_the_labelled_examples_ask_for():
    """If the unlabelled examples are the labelled ones, the true labels have distance 0: labels go there."""
    views = seen()
    rows = jnp.arange(4)
    same = views._replace(weak=views.labeled, indices=views.indices._replace(unlabeled=rows))
    algorithm, state = begin(lga.LGA(label_rate=0.05, weight=0.0, optimizer=SGD), views=same)
    first, step = state, jax.jit(algorithm.step)
    for i in range(150):
        after, metrics = step(state, same, jax.random.key(i))
        state = first._replace(memory=after.memory)  # the network stays as it is
    assert metrics["label_distance"] < 0.02
    np.testing.assert_array_equal(np.asarray(state.memory)[:4].argmax(-1), views.labels)
