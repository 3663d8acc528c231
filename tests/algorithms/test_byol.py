"""BYOL's steps against its equations, example by example."""

import jax
import jax.numpy as jnp
import numpy as np

from metapl import optim
from metapl.algorithms import byol
from tests.algorithms.by_hand import RATE, assert_close, dense, descended, norm, unit
from tests.algorithms.tiny import hidden_layer, tiny_network, tiny_views


def head(params, x):
    return dense(params["dense1"], jax.nn.relu(norm(params["norm0"], dense(params["dense0"], x))))


def test_steps_by_hand():
    views = tiny_views()
    views = views._replace(more_strong=(views.weak - 0.3,))
    config = byol.BYOL(0.6, hidden=6, width=4, optimizer=optim.Optimizer(learning_rate=RATE))
    algorithm = byol.build(config, tiny_network(), 5)
    state = algorithm.init(jax.random.key(0), views, None)
    assert set(state.target.params) == {"network", "projector"}
    both = jnp.concatenate([views.strong, views.weak - 0.3])

    def projections(params):
        return head(params["projector"], hidden_layer(params["network"], both))

    def loss(params, target):
        fixed = [unit(row) for row in projections(target)]
        p = [unit(row) for row in head(params["predictor"], projections(params))]
        first = sum(2 - 2 * p[i] @ fixed[i + 8] for i in range(8)) / 8
        return first + sum(2 - 2 * p[i + 8] @ fixed[i] for i in range(8)) / 8

    for k in range(3):
        after, metrics = jax.jit(algorithm.step)(state, views, jax.random.key(k))
        online = descended(state.online.params, loss, state.target.params)
        assert_close(after.online.params, online)
        expected = jax.jit(loss)(state.online.params, state.target.params)
        np.testing.assert_allclose(metrics["consistency_loss"], expected, rtol=1e-4)
        tau = 1 - (1 - 0.6) * (np.cos(np.pi * k / 5) + 1) / 2
        for part in ("network", "projector"):
            expected = jax.tree.map(lambda a, b, t=tau: t * a + (1 - t) * b, state.target.params[part], online[part])
            assert_close(after.target.params[part], expected)
        state = after
