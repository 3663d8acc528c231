"""Logit adjustment against its equation, in the two losses that have it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl import algorithms, optim
from metapl.algorithms import mpl, supervised
from metapl.algorithms.balance import LogitAdjustment, adjusted
from metapl.schema import ConfigError, validate
from tests.algorithms.tiny import CLASSES, forward, tiny_network, tiny_views

PRIOR = tuple((np.arange(1, CLASSES + 1) / np.arange(1, CLASSES + 1).sum()).tolist())
ADJUSTMENT = LogitAdjustment(0.7, PRIOR)

pytestmark = pytest.mark.usefixtures("float64")


def loss_by_hand(params, views):
    logits = forward(params, views.labeled) + 0.7 * jnp.log(jnp.asarray(PRIOR))
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), views.labels[:, None], -1))


def test_supervised_learning_descends_the_adjusted_loss():
    views = tiny_views()
    config = supervised.Supervised(optim.Optimizer(learning_rate=1.0), logit_adjustment=ADJUSTMENT)
    algorithm = algorithms.build(config, tiny_network(), 10)
    state = algorithm.init(jax.random.key(0), views, None)
    after, _ = jax.jit(algorithm.step)(state, views, jax.random.key(1))
    gradient = jax.jit(jax.grad(loss_by_hand))(state.params, views)
    jax.tree.map(
        lambda a, b, g: np.testing.assert_allclose(a, b - g, rtol=1e-10, atol=1e-12),
        after.params,
        state.params,
        gradient,
    )


def test_mpls_teacher_reports_the_adjusted_loss():
    views = tiny_views()
    algorithm = mpl.build(mpl.MPL(logit_adjustment=ADJUSTMENT), tiny_network(), 10)
    state = algorithm.init(jax.random.key(0), views, None)
    _, metrics = jax.jit(algorithm.step)(state, views, jax.random.key(1))
    np.testing.assert_allclose(metrics["teacher_loss"], loss_by_hand(state.teacher.params, views), rtol=1e-12)


def test_without_a_strength_nothing_is_added():
    logits = jnp.ones((2, CLASSES))
    assert adjusted(LogitAdjustment(), logits) is logits


def test_a_prior_that_cannot_be_is_refused():
    with pytest.raises(ConfigError, match="needs the prior"):
        validate(LogitAdjustment(1.0))
    with pytest.raises(ConfigError, match="shares above 0"):
        validate(LogitAdjustment(1.0, (0.0, 1.0)))
    with pytest.raises(ConfigError, match=f"2 shares, but there are {CLASSES} classes"):
        adjusted(LogitAdjustment(1.0, (0.5, 0.5)), jnp.ones((2, CLASSES)))
