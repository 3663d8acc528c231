"""Batch normalisation, against arithmetic by hand and against flax's own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from metapl.models.norm import BatchNorm

X = 3.0 + 2.0 * jax.random.normal(jax.random.key(0), (4, 3, 3, 5))


def test_a_step_moves_the_running_statistics_by_a_hundredth():
    x = jnp.array([[1.0], [2.0], [6.0]])  # mean 3, variance (4 + 1 + 9) / 3
    norm = BatchNorm(epsilon=0.0)
    variables = norm.init(jax.random.key(0), x, train=False)
    _, once = norm.apply(variables, x, train=True, mutable=["batch_stats"])
    _, twice = norm.apply({**variables, **once}, x, train=True, mutable=["batch_stats"])
    np.testing.assert_allclose(once["batch_stats"]["mean"], [0.03], rtol=1e-5)
    np.testing.assert_allclose(once["batch_stats"]["var"], [0.99 + 0.01 * 14 / 3], rtol=1e-6)
    np.testing.assert_allclose(twice["batch_stats"]["mean"], [0.99 * 0.03 + 0.03], rtol=1e-5)


def test_each_mode_normalises_by_its_own_statistics():
    x = jnp.array([[1.0], [2.0], [6.0]])
    params = {"scale": jnp.array([2.0]), "bias": jnp.array([10.0])}
    variables = {"params": params, "batch_stats": {"mean": jnp.array([1.0]), "var": jnp.array([3.0])}}
    evaluated = BatchNorm(epsilon=1.0).apply(variables, x, train=False)
    np.testing.assert_allclose(evaluated, [[10.0], [11.0], [15.0]], rtol=1e-6)
    trained, _ = BatchNorm(epsilon=1.0).apply(variables, x, train=True, mutable=["batch_stats"])
    np.testing.assert_allclose(trained, 10 + 2 * (x - 3) / np.sqrt(14 / 3 + 1), rtol=1e-6)


@pytest.mark.parametrize("train", [False, True])
def test_it_is_flaxs_batch_norm(train):
    ours, theirs = BatchNorm(0.9, 1e-3), nn.BatchNorm(not train, momentum=0.9, epsilon=1e-3)
    params = {"scale": jnp.linspace(0.5, 2, 5), "bias": jnp.linspace(-1, 1, 5)}
    variables = {"params": params, "batch_stats": {"mean": jnp.linspace(2, 3, 5), "var": jnp.linspace(1, 4, 5)}}

    def loss(variables, x, module, **mode):
        y, changed = module.apply(variables, x, mutable=["batch_stats"], **mode)
        return jnp.sum(jnp.sin(y)), (y, changed)

    one = jax.value_and_grad(loss, (0, 1), has_aux=True)(variables, X, ours, train=train)
    other = jax.value_and_grad(loss, (0, 1), has_aux=True)(variables, X, theirs)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4), one, other)


def test_statistics_of_bfloat16_are_summed_in_float32():
    x = jnp.ones((1000, 1), jnp.bfloat16) + jnp.bfloat16(0.5)  # a bfloat16 counts no further than 256
    norm = BatchNorm(decay=0.0)
    variables = norm.init(jax.random.key(0), x, train=False)
    y, changed = norm.apply(variables, x, train=True, mutable=["batch_stats"])
    assert y.dtype == jnp.bfloat16
    assert changed["batch_stats"]["mean"].dtype == changed["batch_stats"]["var"].dtype == jnp.float32
    np.testing.assert_allclose(changed["batch_stats"]["mean"], [1.5], rtol=1e-6)


def test_equal_numbers_have_no_negative_variance():
    x = jnp.broadcast_to(jnp.linspace(1000.0, 2000.0, 64), (7, 64))  # some of these round below zero
    norm = BatchNorm(decay=0.0)
    y, changed = norm.apply(norm.init(jax.random.key(0), x, train=False), x, train=True, mutable=["batch_stats"])
    assert np.all(changed["batch_stats"]["var"] >= 0)
    assert np.isfinite(y).all()
