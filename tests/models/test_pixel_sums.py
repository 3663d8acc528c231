"""Batch norm by sums over pixels is batch norm, with its derivatives of every kind."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from metapl.models import pixel_sums
from metapl.models.norm import BatchNorm
from metapl.models.onednn import portable

EPSILON = 1e-3
SHAPES = {"pictures": (5, 7, 6, 19), "rows": (11, 3), "several parts": (9, 64, 64, 8)}


def usual(x, scale, bias):
    axes = tuple(range(x.ndim - 1))
    mean = x.mean(axes)
    var = jnp.maximum(lax.square(x).mean(axes) - lax.square(mean), 0.0)
    return (x - mean) * (scale * lax.rsqrt(var + EPSILON)) + bias, mean, var


def ours(x, scale, bias):
    return pixel_sums.batch_norm(x, scale, bias, EPSILON)


def everything(function, point, direction, target):
    """The values and their derivatives: forward, backward, second order both ways, and under vmap."""

    def loss(*point):
        y, mean, var = function(*point)
        return jnp.sum(jnp.sin(y) * target) + jnp.sum(mean * var)

    gradient = jax.grad(loss, (0, 1, 2))
    members = [jnp.stack([a, 2 * b]) for a, b in zip(point, direction, strict=True)]

    def length(*point):
        return sum(jnp.sum(g * d) for g, d in zip(gradient(*point), direction, strict=True))

    return (
        function(*point),
        jax.jvp(function, point, direction),
        gradient(*point),
        jax.jvp(gradient, point, direction),
        jax.grad(length, (0, 1, 2))(*point),
        jax.vmap(gradient)(*members),
        jax.vmap(function, (0, None, None))(members[0], *point[1:]),
    )


@pytest.mark.parametrize("name", SHAPES)
def test_batch_norm_has_the_usual_values_and_derivatives(name):
    shape = SHAPES[name]
    pixel_sums.available()  # in CI, without the extension, XLA computes the sums
    keys = jax.random.split(jax.random.key(0), 7)
    shapes = (shape, shape[-1:], shape[-1:])
    point, direction = (
        tuple(jax.random.normal(key, shape) for key, shape in zip(part, shapes, strict=True))
        for part in (keys[:3], keys[3:6])
    )
    point = (2 * point[0] + 1, *point[1:])
    target = jax.random.normal(keys[6], shape)
    a, b = (jax.jit(everything, static_argnums=0)(way, point, direction, target) for way in (ours, usual))
    for one, other in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=2e-5 * max(1e-3, np.abs(other).max()))


@pytest.mark.skipif(not pixel_sums.available(), reason="needs extensions/onednn (make onednn)")
def test_the_layer_takes_it_in_training_where_the_extension_is():
    layer, x = BatchNorm(), jnp.ones((4, 3, 3, 8))
    weights = layer.init(jax.random.key(0), x, train=False)

    def traced(train):
        return str(jax.make_jaxpr(lambda x: layer.apply(weights, x, train=train, mutable=["batch_stats"]))(x))

    assert "pixel_sums" in traced(train=True)
    assert "pixel_sums" not in traced(train=False)
    with portable():
        assert "pixel_sums" not in traced(train=True)


@pytest.mark.skipif(not pixel_sums.available(), reason="needs extensions/onednn (make onednn)")
def test_sums_are_exact_for_whole_numbers_and_the_same_bits_twice():
    keys = jax.random.split(jax.random.key(0), 3)
    a, b = (jax.random.randint(key, (50, 31, 9, 21), -8, 8).astype(jnp.float32) for key in keys[:2])
    m = jax.random.randint(keys[2], (21,), -8, 8).astype(jnp.float32)
    first = jax.jit(pixel_sums.sums)(a, m, b)
    np.testing.assert_array_equal(first, pixel_sums.sums_by_xla(a, m, b))
    for _ in range(10):
        np.testing.assert_array_equal(jax.jit(pixel_sums.sums)(a / 3, m, b), jax.jit(pixel_sums.sums)(a / 3, m, b))
