"""FlexMatch's step against its equations, written out, in double precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl.algorithms import flexmatch
from tests.algorithms.single_steps import ROWS, SGD, assert_close, begin, descended, labeled_loss, log_p, predict, seen

pytestmark = pytest.mark.usefixtures("float64")
BEFORE = np.array([0, 0, 0, 1, 0, -1, -1, 2, 2, -1, -1, 2])


def test_one_step_by_hand():
    views = seen()
    method = flexmatch.FlexMatch(2.5, threshold=0.9, optimizer=SGD)
    algorithm, state = begin(method, jnp.asarray(BEFORE, jnp.int32))
    after, metrics = algorithm.step(state, views, jax.random.key(1))

    q = predict(state.params, views.weak)
    beta = np.array([4, 1, 3]) / 4
    kept = [i for i in range(8) if q[i].max() >= 0.9 * beta[q[i].argmax()] / (2 - beta[q[i].argmax()])]
    sure = [i for i in range(8) if q[i].max() >= 0.9]
    assert (len(sure), len(kept)) == (1, 6)  # 4, if the threshold were τ β

    def loss(params):
        strong = log_p(params, views.strong)
        return labeled_loss(params, views) - 2.5 * sum(strong[i, q[i].argmax()] for i in kept) / 8

    expected = BEFORE.copy()
    expected[ROWS[sure]] = q[sure].argmax(-1)
    assert_close(after.params, descended(state.params, loss))
    np.testing.assert_array_equal(after.memory, expected)
    np.testing.assert_allclose(metrics["learnt_share"], np.mean(expected >= 0))


def test_at_first_every_example_counts():
    algorithm, state = begin(flexmatch.FlexMatch(optimizer=SGD))
    assert (np.asarray(state.memory) == -1).all()
    _, metrics = algorithm.step(state, seen(), jax.random.key(1))
    assert metrics["mask_rate"] == 1
