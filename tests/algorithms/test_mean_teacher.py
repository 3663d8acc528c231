"""Mean Teacher's steps against its equations, written out in NumPy and plain JAX, in double precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl import algorithms, optim
from metapl.algorithms import mean_teacher
from metapl.schema import ConfigError, validate
from tests.algorithms.tiny import forward, tiny_network, tiny_views

pytestmark = pytest.mark.usefixtures("float64")


def test_steps_by_hand():
    views, network = tiny_views(), tiny_network()
    views = views._replace(more_weak=(views.weak + 0.3,))
    config = mean_teacher.MeanTeacher(2.5, ramp_steps=4, decay=0.6, optimizer=optim.Optimizer(learning_rate=0.5))
    algorithm = algorithms.build(config, network, 10)
    state = algorithm.init(jax.random.key(0), views, None)
    for t in range(6):
        after, metrics = jax.jit(algorithm.step)(state, views, jax.random.key(t))
        q = np.asarray(jax.nn.softmax(forward(state.memory.params, views.weak)))
        factor = 2.5 * np.exp(-5 * (1 - min(1, t / 4)) ** 2)

        def loss(params, q=q, factor=factor):
            log_l = jax.nn.log_softmax(forward(params, views.labeled))
            supervised = -sum(log_l[i, y] for i, y in enumerate(views.labels)) / len(log_l)
            p = jax.nn.softmax(forward(params, views.weak + 0.3))
            return supervised + factor * sum(jnp.sum((p[i] - row) ** 2) for i, row in enumerate(q)) / q.size

        student = jax.tree.map(lambda p, g: p - 0.5 * g, state.params, jax.jit(jax.grad(loss))(state.params))
        kept = min(1 - 1 / (t + 2), 0.6)
        teacher = jax.tree.map(lambda a, w, b=kept: b * a + (1 - b) * w, state.memory.params, student)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12), after.params, student)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12), after.memory.params, teacher)
        assert metrics["consistency_loss"] > 0
        state = after


def test_the_teacher_is_evaluated_and_no_second_average():
    views, network = tiny_views(), tiny_network()
    views = views._replace(more_weak=(views.weak,))
    algorithm = algorithms.build(mean_teacher.MeanTeacher(), network, 10)
    state = algorithm.init(jax.random.key(0), views, None)
    assert algorithm.predictor(state) is state.memory
    with pytest.raises(ConfigError, match="the teacher is the average"):
        validate(mean_teacher.MeanTeacher(optimizer=optim.Optimizer(average_decay=0.9)))
