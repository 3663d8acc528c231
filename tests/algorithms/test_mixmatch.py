"""MixMatch's steps against its equations, written out, in double precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl.algorithms import mixmatch
from metapl.augment import mixup
from tests.algorithms.single_steps import SGD, assert_close, begin, descended, log_p, predict, seen

pytestmark = pytest.mark.usefixtures("float64")


def test_steps_by_hand():
    views = seen()
    method = mixmatch.MixMatch(5.0, views=2, temperature=0.7, mixup=0.6, ramp_steps=2, optimizer=SGD)
    algorithm, state = begin(method)
    for t in range(4):
        after, metrics = algorithm.step(state, views, jax.random.key(t))
        mean = (predict(state.params, views.weak) + predict(state.params, views.weak + 0.3)) / 2
        q = mean ** (1 / 0.7)
        q /= q.sum(-1, keepdims=True)
        x = np.concatenate([views.labeled, views.weak, views.weak + 0.3])
        y = np.concatenate([np.eye(3)[np.asarray(views.labels)], q, q])
        mixture = mixup.draw(jax.random.split(jax.random.key(t), 3)[1], 20, 0.6, jnp.float64)
        part, order = np.maximum(mixture.part, 1 - mixture.part)[:, None], np.asarray(mixture.order)
        assert (part >= 0.5).all()
        x, y = (part * values + (1 - part) * values[order] for values in (x, y))

        def loss(params, x=x, y=y, t=t):
            factor = 5.0 * min(1, t / 2)
            rows = log_p(params, x)
            supervised = -sum(jnp.sum(y[i] * rows[i]) for i in range(4)) / 4
            return supervised + factor * sum(jnp.sum((y[i] - jnp.exp(rows[i])) ** 2) for i in range(4, 20)) / 48

        assert_close(after.params, descended(state.params, loss))
        assert metrics["unlabeled_loss"] > 0
        state = after
