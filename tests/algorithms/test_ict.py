"""ICT's steps against its equations, written out, in double precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl import optim
from metapl.algorithms import ict
from metapl.augment import mixup
from metapl.schema import ConfigError, validate
from tests.algorithms.single_steps import SGD, assert_close, begin, descended, predict, seen
from tests.algorithms.tiny import forward

pytestmark = pytest.mark.usefixtures("float64")


def test_steps_by_hand():
    views, (algorithm, state) = (
        seen(),
        begin(ict.ICT(20.0, 0.6, labeled_mixup=0.7, ramp_steps=2, decay=0.6, optimizer=SGD)),
    )
    for t in range(4):
        after, metrics = algorithm.step(state, views, jax.random.key(t))
        mixture = mixup.draw(jax.random.split(jax.random.key(t), 3)[2], 8, 0.6, jnp.float64)
        nu, order = np.asarray(mixture.part)[:, None], np.asarray(mixture.order)
        u, q = np.asarray(views.weak), predict(state.memory.params, views.weak)
        u, q = (nu * values + (1 - nu) * values[order] for values in (u, q))
        mixture = mixup.draw(jax.random.fold_in(jax.random.key(t), 100), 4, 0.7, jnp.float64)
        nu, order = np.asarray(mixture.part)[:, None], np.asarray(mixture.order)
        x, y = np.asarray(views.labeled), np.eye(3)[np.asarray(views.labels)]
        x, y = (nu * values + (1 - nu) * values[order] for values in (x, y))

        def loss(params, u=u, q=q, x=x, y=y, t=t):
            factor = 20.0 * np.exp(-5 * (1 - min(1, t / 2)) ** 2)
            p = jax.nn.softmax(forward(params, u))
            labeled = -jnp.sum(y * jax.nn.log_softmax(forward(params, x))) / 4
            return labeled + factor * sum(jnp.sum((p[i] - q[i]) ** 2) for i in range(8)) / 24

        student, kept = descended(state.params, loss), min(1 - 1 / (t + 2), 0.6)
        assert_close(after.params, student)
        average = jax.tree.map(lambda a, w, b=kept: b * a + (1 - b) * w, state.memory.params, student)
        assert_close(after.memory.params, average)
        assert metrics["consistency_loss"] > 0
        state = after
    assert algorithm.predictor(state) is state.memory


def test_a_second_average_is_refused():
    with pytest.raises(ConfigError, match="the teacher is the average"):
        validate(ict.ICT(optimizer=optim.Optimizer(average_decay=0.9)))
