"""From settings to updates: each field does what it says."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from metapl.optim import Optimizer, build
from metapl.schema import ConfigError

PARAMS = {"kernel": jnp.array([[1.0, -2.0]]), "bias": jnp.array([0.5])}
GRADIENT = {"kernel": jnp.array([[0.3, 0.4]]), "bias": jnp.array([1.2])}


def updates(config: Optimizer, steps: int = 1, total: int = 10):
    transform = build(config, total)
    state, out = transform.init(PARAMS), []
    for _ in range(steps):
        update, state = transform.update(GRADIENT, state, PARAMS)
        out.append(update)
    return out


def test_plain_sgd_is_minus_rate_times_gradient():
    np.testing.assert_allclose(updates(Optimizer(learning_rate=0.1))[0]["kernel"], -0.1 * GRADIENT["kernel"])


def test_nesterov_looks_ahead_along_the_momentum():
    one, two = updates(Optimizer(learning_rate=0.1, momentum=0.9, nesterov=True), steps=2)
    np.testing.assert_allclose(one["bias"], -0.1 * (1 + 0.9) * GRADIENT["bias"], rtol=1e-6)
    np.testing.assert_allclose(two["bias"], -0.1 * (1 + 0.9 * 1.9) * GRADIENT["bias"], rtol=1e-6)


def test_decay_pulls_matrices_and_leaves_biases():
    (update,) = updates(Optimizer(learning_rate=0.1, weight_decay=0.01))
    np.testing.assert_allclose(update["kernel"], -0.1 * (GRADIENT["kernel"] + 0.01 * PARAMS["kernel"]), rtol=1e-6)
    np.testing.assert_allclose(update["bias"], -0.1 * GRADIENT["bias"], rtol=1e-6)


def test_clipping_bounds_the_norm():
    (update,) = updates(Optimizer(learning_rate=1.0, clip_norm=0.13))
    np.testing.assert_allclose(optax.tree.norm(update), 0.13, rtol=1e-5)


def test_cosine_rises_and_falls_to_nothing():
    rates = [-float(u["bias"][0] / 1.2) for u in updates(Optimizer(0.2, "cosine", warmup_steps=2), steps=11)]
    np.testing.assert_allclose(rates[:3], [0.0, 0.1, 0.2], atol=1e-6)
    assert rates[2:] == sorted(rates[2:], reverse=True)
    assert rates[10] == pytest.approx(0, abs=1e-7)


def test_a_warm_up_that_never_ends_is_refused():
    with pytest.raises(ConfigError, match=r"warmup_steps \(10\) must be fewer than the stage's 10 steps"):
        build(Optimizer(schedule="cosine", warmup_steps=10), 10)
