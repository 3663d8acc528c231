"""MoCo's steps against its equations, query by query; the queue's order and size."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl import optim
from metapl.algorithms import moco
from metapl.config import Stage
from metapl.schema import ConfigError, validate
from tests.algorithms.by_hand import RATE, assert_close, dense, descended, unit
from tests.algorithms.tiny import hidden_layer, tiny_network, tiny_views


def projections(params, x):
    g = params["projector"]
    return [
        unit(row) for row in dense(g["dense1"], jax.nn.relu(dense(g["dense0"], hidden_layer(params["network"], x))))
    ]


def test_steps_by_hand():
    views = tiny_views()
    views = views._replace(more_strong=(views.weak - 0.3,))
    config = moco.MoCo(12, 0.5, 0.7, hidden=6, width=4, optimizer=optim.Optimizer(learning_rate=RATE))
    algorithm = moco.build(config, tiny_network(), 10)
    state = algorithm.init(jax.random.key(0), views, None)
    np.testing.assert_allclose(jnp.linalg.norm(state.queue, axis=-1), 1, rtol=1e-5)

    def loss(params, positives, queue):
        total = 0.0
        for q, positive in zip(projections(params, views.strong), positives, strict=True):
            own = jnp.exp(q @ positive / 0.5)
            total -= jnp.log(own / (own + jnp.sum(jnp.exp(queue @ q / 0.5)))) / 8
        return total

    for k in range(3):
        after, metrics = jax.jit(algorithm.step)(state, views, jax.random.key(k))
        positives = jax.jit(projections)(state.keys.params, views.weak - 0.3)
        told = state.queries.params, positives, state.queue
        queries = descended(told[0], loss, *told[1:])
        assert_close(after.queries.params, queries)
        np.testing.assert_allclose(metrics["contrast_loss"], jax.jit(loss)(*told), rtol=1e-4)
        assert_close(after.keys.params, jax.tree.map(lambda a, b: 0.7 * a + 0.3 * b, state.keys.params, queries))
        assert_close(
            after.queue, np.stack([*positives, *np.asarray(state.queue)[:4]])
        )  # the newest first, the oldest forgotten
        state = after


def test_a_queue_that_does_not_hold_a_batch_is_refused():
    with pytest.raises(ConfigError, match=r"method\.queue = 63 holds less than a batch; take at least .* = 64"):
        validate(Stage(moco.MoCo(queue=63), unlabeled_batch=64))
