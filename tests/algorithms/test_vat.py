"""VAT's step against its equations, with the Hessian by automatic differentiation, in double precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl.algorithms import vat
from tests.algorithms.single_steps import SGD, assert_close, begin, descended, labeled_loss, log_p, predict, seen

pytestmark = pytest.mark.usefixtures("float64")


@pytest.mark.parametrize("power_steps", [1, 3])
def test_one_step_by_hand(power_steps):
    views = seen()
    method = vat.VAT(2.5, entropy_weight=0.7, radius=0.4, power_steps=power_steps, optimizer=SGD)
    algorithm, state = begin(method)
    after, metrics = algorithm.step(state, views, jax.random.key(1))

    p, x = predict(state.params, views.weak), np.asarray(views.weak)

    def divergence(r, i):
        return jnp.sum(p[i] * (np.log(p[i]) - log_p(state.params, (x[i] + r)[None])[0]))

    directions = np.array(jax.random.normal(jax.random.split(jax.random.key(1), 3)[2], (8, 2)))
    directions /= np.linalg.norm(directions, axis=-1, keepdims=True)
    for i in range(8):
        hessian = np.asarray(jax.hessian(divergence)(jnp.zeros(2), i))
        for _ in range(power_steps):
            directions[i] = hessian @ directions[i]
            directions[i] /= np.linalg.norm(directions[i])

    def loss(params):
        moved, rows = log_p(params, x + 0.4 * directions), log_p(params, x)
        kl = sum(jnp.sum(p[i] * (np.log(p[i]) - moved[i])) for i in range(8)) / 8
        entropy = -sum(jnp.sum(jnp.exp(row) * row) for row in rows) / 8
        return labeled_loss(params, views) + 2.5 * kl + 0.7 * entropy

    assert_close(after.params, descended(state.params, loss))
    assert metrics["consistency_loss"] > 0


def test_a_direction_of_zero_stays_zero_and_tiny_ones_keep_their_direction():
    changes = jnp.array([[0.0, 0.0], [3e-30, 4e-30]], jnp.float32)
    np.testing.assert_allclose(vat.unit(changes), [[0, 0], [0.6, 0.8]], rtol=1e-6)
