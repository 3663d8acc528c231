"""FixMatch's step against its equations, written out in NumPy and plain JAX, in double precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl import algorithms, optim
from metapl.algorithms import fixmatch
from tests.algorithms.tiny import draw, forward, tiny_network, tiny_views

pytestmark = pytest.mark.usefixtures("float64")


def test_one_step_by_hand():
    views, network = tiny_views(), tiny_network()
    confidence = np.sort(jax.nn.softmax(forward(draw(jax.random.key(0)), views.weak)).max(-1))
    threshold = float(confidence[3:5].mean())  # some take part, some do not
    config = fixmatch.FixMatch(2.5, threshold, optim.Optimizer(learning_rate=1.0), label_smoothing=0.2)
    algorithm = algorithms.build(config, network, 10)
    state = algorithm.init(jax.random.key(0), views, None)
    after, metrics = jax.jit(algorithm.step)(state, views, jax.random.key(1))

    q = np.asarray(jax.nn.softmax(forward(state.params, views.weak)))
    kept = [i for i in range(len(q)) if q[i].max() >= threshold]

    def loss(params):
        log_l = jax.nn.log_softmax(forward(params, views.labeled))
        supervised = sum(-0.8 * log_l[i, y] - 0.2 * log_l[i].mean() for i, y in enumerate(views.labels)) / len(log_l)
        log_s = jax.nn.log_softmax(forward(params, views.strong))
        return supervised + 2.5 * sum(-log_s[i, q[i].argmax()] for i in kept) / len(q)

    expected = jax.tree.map(jnp.subtract, state.params, jax.jit(jax.grad(loss))(state.params))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), after.params, expected)
    assert metrics["mask_rate"] == len(kept) / len(q)
