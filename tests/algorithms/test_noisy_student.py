"""One step of Noisy Student against its equation, written out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl import models, optim
from metapl.algorithms import noisy_student
from metapl.models.mlp import MLP
from metapl.types import PSEUDO_LABELS, Views

RATE = 0.3


@pytest.fixture
def network():
    return models.build(MLP(hidden=(8,), init_range=1.0), classes=3)


@pytest.fixture
def views() -> Views:
    keys = jax.random.split(jax.random.key(3), 4)
    x_l, x_u = jax.random.normal(keys[0], (5, 2)), jax.random.normal(keys[1], (7, 2))
    strong = x_u + jax.random.normal(keys[2], x_u.shape)
    given = jax.nn.softmax(2 * jax.random.normal(keys[3], (7, 3)))
    return Views(x_l, jnp.arange(5, dtype=jnp.int32) % 3, x_u, strong, predictions=given)


def forward(params, x):
    hidden = jax.nn.sigmoid(x @ params["Dense_0"]["kernel"] + params["Dense_0"]["bias"])
    return jax.nn.log_softmax(hidden @ params["Dense_1"]["kernel"] + params["Dense_1"]["bias"])


@pytest.mark.parametrize("labels", ["soft", "hard"])
@pytest.mark.parametrize(("view", "weight"), [("weak", 0.0), ("strong", 1.0)])
def test_one_step_is_the_equation(views, network, labels, view, weight):
    config = noisy_student.NoisyStudent(
        labels=labels,
        unlabeled_weight=1.7,
        labeled_weight=weight,
        student_view=view,
        optimizer=optim.Optimizer(RATE),
    )
    algorithm = noisy_student.build(config, network, steps=10)
    state = algorithm.init(jax.random.key(0), views, None)
    after, metrics = jax.jit(algorithm.step)(state, views, jax.random.key(1))
    q = np.eye(3)[np.argmax(views.predictions, -1)] if labels == "hard" else views.predictions

    def objective(params):
        true = -jnp.mean(forward(params, views.labeled)[jnp.arange(5), views.labels])
        given = -jnp.mean(jnp.sum(q * forward(params, getattr(views, view)), axis=1))
        return weight * true + 1.7 * given, (true, given)

    gradient, (true, given) = jax.jit(jax.grad(objective, has_aux=True))(state.params)
    expected = jax.tree.map(lambda p, g: p - RATE * g, state.params, gradient)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), after.params, expected)
    np.testing.assert_allclose((metrics["loss"], metrics["unlabeled_loss"]), (true, given), rtol=1e-5)
    squares = sum(float(jnp.sum(leaf**2)) for leaf in jax.tree.leaves(gradient))
    np.testing.assert_allclose(metrics["gradient_norm"], squares**0.5, rtol=1e-5)
    np.testing.assert_array_equal(metrics[PSEUDO_LABELS], np.eye(3)[np.argmax(views.predictions, -1)])


def test_the_student_begins_afresh(views, network):
    algorithm = noisy_student.build(noisy_student.NoisyStudent(), network, steps=10)
    start = network.init(jax.random.key(9), views.weak)
    fresh, told = (algorithm.init(jax.random.key(0), views, given) for given in (None, start))
    jax.tree.map(np.testing.assert_array_equal, fresh.params, told.params)
