"""Every way to compute a convolution is one function, with one derivative of every kind."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from metapl import models
from metapl.models import onednn
from metapl.models.convolution import convolve, geometry_of, product, quick_way
from metapl.models.layers import conv
from metapl.models.onednn import portable
from metapl.models.wide_resnet import WideResNet

FLOAT32 = jnp.dtype("float32")
SMALL = {  # height, width, kernel, strides, padding: the kernel is larger than the output
    "3x3 at 2x2": (2, 2, 3, (1, 1), ((1, 1), (1, 1))),
    "3x3 at 1x1": (1, 1, 3, (1, 1), "SAME"),
    "stride 2 at 4x4": (4, 4, 3, (2, 2), ((1, 1), (1, 1))),
    "stride 2 at 4x4, SAME": (4, 4, 3, (2, 2), "SAME"),
    "VALID": (4, 3, 3, (1, 1), "VALID"),
    "5x5, uneven": (3, 6, 5, (1, 2), ((2, 2), (0, 3))),
}
LARGE = {
    "3x3": (9, 8, 3, (1, 1), "SAME"),
    "stride 2": (8, 8, 3, (2, 2), "SAME"),
    "1x1, stride 2": (6, 6, 1, (2, 2), "VALID"),
    "7x7, uneven": (14, 9, 7, (2, 1), ((3, 3), (2, 4))),
}

TILED = {  # batch, height, width, channels, padding of 3×3 convolutions that the extension computes in tiles of 4×4
    "whole tiles": (3, 8, 16, (32, 32), "SAME"),
    "parts of tiles": (4, 9, 10, (16, 48), "SAME"),
    "VALID": (5, 10, 9, (48, 16), "VALID"),
    "uneven padding": (5, 7, 7, (32, 64), ((2, 0), (0, 1))),
    "a tile in a picture": (17, 4, 4, (64, 48), "SAME"),
}

DIRECT = {  # batch, height, width, channels, kernel, strides, padding of others that it computes by itself
    "1x1": (3, 14, 15, (32, 48), 1, (1, 1), "VALID"),  # more pixels than one part has
    "1x1, stride 2": (2, 7, 6, (16, 64), 1, (2, 2), "VALID"),
    "1x1, deep": (5, 2, 2, (544, 16), 1, (1, 1), "VALID"),
    "3x3 at 2x2": (5, 2, 2, (48, 80), 3, (1, 1), "SAME"),
    "3x3 at 1x1": (3, 1, 1, (16, 16), 3, (1, 1), "SAME"),
    "3x3, stride 2": (3, 9, 8, (32, 48), 3, (2, 2), ((1, 1), (0, 1))),
    "2x3, uneven": (3, 5, 7, (16, 32), (2, 3), (2, 1), ((0, 1), (2, 2))),
}


def arrays(height, width, kernel, dtype=FLOAT32, batch=5, channels=(16, 8)):
    keys = jax.random.split(jax.random.key(0), 4)
    sides = (kernel, kernel) if isinstance(kernel, int) else kernel
    shapes = ((batch, height, width, channels[0]), (*sides, *channels)) * 2
    return [jax.random.normal(key, shape, dtype) for key, shape in zip(keys, shapes, strict=True)]


def by_lax(strides, padding):
    return lambda x, w: lax.conv_general_dilated(x, w, strides, padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))


def everything(function, x, w, dx, dw):
    """The value and its derivatives: forward, backward, second order, and under vmap."""

    def along(x, w):
        return jax.jvp(function, (x, w), (dx, dw))

    y, dy = along(x, w)
    members = jax.vmap(function)(jnp.stack([x, dx]), jnp.stack([w, dw]))
    shared = jax.vmap(function, (0, None))(jnp.stack([x, dx]), w)
    second = jax.grad(lambda x, w: jnp.sum(jnp.square(along(x, w)[1])), (0, 1))(x, w)

    def length_of_gradients(x, w, dy):
        return sum(jnp.sum(jnp.square(gradient)) for gradient in jax.vjp(function, x, w)[1](dy))

    of_gradients = jax.grad(length_of_gradients, (0, 1, 2))(x, w, dy)
    return y, dy, jax.vjp(function, x, w)[1](dy), members, shared, second, of_gradients


def assert_same_function(function, reference, inputs, rtol):
    ours, theirs = (jax.jit(everything, static_argnums=0)(way, *inputs) for way in (function, reference))
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=0, atol=rtol * np.abs(b).max())


@pytest.mark.parametrize("name", SMALL)
def test_a_product_is_the_convolution(name):
    height, width, kernel, strides, padding = SMALL[name]
    x, w, *rest = arrays(height, width, kernel)
    geometry = geometry_of(x, w, strides, padding)
    assert_same_function(lambda x, w: product(x, w, geometry), by_lax(strides, padding), (x, w, *rest), 1e-5)
    assert quick_way(geometry, FLOAT32) is not None


@pytest.mark.parametrize("channels", [(4, 12), (24, 8)])
def test_a_1x1_kernel_that_widens_or_narrows_is_a_product(channels):
    inputs = arrays(6, 5, 1, channels=channels)
    assert_same_function(lambda x, w: convolve(x, w, (1, 1), "SAME"), by_lax((1, 1), "SAME"), inputs, 1e-5)
    with portable():
        program = jax.jit(lambda x, w: convolve(x, w, (1, 1), "SAME")).lower(*inputs[:2]).as_text()
    assert "stablehlo.convolution" not in program


def test_a_product_in_double_precision(float64):
    inputs = arrays(2, 2, 3, jnp.dtype("float64"))
    strides, padding = (1, 1), ((1, 1), (1, 1))
    assert_same_function(lambda x, w: convolve(x, w, strides, padding), by_lax(strides, padding), inputs, 1e-13)


def test_bfloat16_and_dilation_are_left_to_xla():
    x, w, *_ = arrays(2, 2, 3, jnp.dtype("bfloat16"))
    assert quick_way(geometry_of(x, w, (1, 1), "SAME"), x.dtype) is None
    np.testing.assert_array_equal(convolve(x, w, (1, 1), "SAME"), by_lax((1, 1), "SAME")(x, w))
    x, w, *_ = arrays(5, 5, 3)
    reference = lax.conv_general_dilated(
        x, w, (1, 1), "SAME", rhs_dilation=(2, 2), dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    np.testing.assert_array_equal(convolve(x, w, (1, 1), "SAME", rhs_dilation=(2, 2)), reference)


def test_several_devices_share_xlas_convolution():
    x, w, *_ = arrays(2, 2, 3)
    geometry = geometry_of(x, w, (1, 1), "SAME")
    mesh = jax.sharding.AbstractMesh((2,), ("data",))
    with jax.sharding.use_abstract_mesh(mesh):
        assert quick_way(geometry, FLOAT32) is None


def test_the_layer_takes_the_product_on_a_cpu_and_the_convolution_elsewhere():
    layer, x = conv(4, 3, padding=1, dtype=FLOAT32, name="layer"), jnp.ones((2, 2, 2, 3))
    weights = layer.init(jax.random.key(0), x)
    lowered = {
        platform: jax.jit(layer.apply).trace(weights, x).lower(lowering_platforms=(platform,)).as_text()
        for platform in ("cpu", "tpu")
    }
    assert "stablehlo.convolution" not in lowered["cpu"]
    assert "stablehlo.convolution" in lowered["tpu"]


needs_onednn = pytest.mark.skipif(not onednn.available(), reason="needs extensions/onednn (make onednn)")


@needs_onednn
@pytest.mark.parametrize("name", LARGE)
def test_onednns_convolution_is_xlas(name):
    height, width, kernel, strides, padding = LARGE[name]
    x, w, *rest = arrays(height, width, kernel)
    geometry = geometry_of(x, w, strides, padding)
    assert_same_function(lambda x, w: onednn.convolution(x, w, geometry), by_lax(strides, padding), (x, w, *rest), 1e-5)
    with portable():
        assert quick_way(geometry, FLOAT32) is None


@needs_onednn
@pytest.mark.parametrize("name", TILED)
def test_winograds_convolution_is_xlas(name):
    batch, height, width, channels, padding = TILED[name]
    x, w, *rest = arrays(height, width, 3, batch=batch, channels=channels)
    geometry = geometry_of(x, w, (1, 1), padding)
    assert_same_function(lambda x, w: onednn.convolution(x, w, geometry), by_lax((1, 1), padding), (x, w, *rest), 1e-5)


@needs_onednn
@pytest.mark.parametrize("name", DIRECT)
def test_a_sum_of_products_over_the_kernel_is_xlas_convolution(name):
    batch, height, width, channels, kernel, strides, padding = DIRECT[name]
    x, w, *rest = arrays(height, width, kernel, batch=batch, channels=channels)
    geometry = geometry_of(x, w, strides, padding)
    assert_same_function(lambda x, w: onednn.convolution(x, w, geometry), by_lax(strides, padding), (x, w, *rest), 1e-5)
    if onednn.has_own_kernels():
        assert "onednn" in str(jax.make_jaxpr(quick_way(geometry, FLOAT32))(x, w))


@needs_onednn
@pytest.mark.parametrize(
    ("size", "channels", "kernel", "stride"),
    [(8, 12, 5, 1), (8, 12, 5, 2), (2, 99, 5, 1), (7, 32, 3, 2), (20, 16, 3, 1)],  # the last one is large: oneDNN's own
)
def test_onednns_depthwise_convolution_is_xlas(size, channels, kernel, stride):
    """99 channels: blocks of 64 and of 16, and the rest."""
    keys = jax.random.split(jax.random.key(0), 4)
    shapes = ((3, size, size, channels), (kernel, kernel, 1, channels)) * 2
    inputs = [jax.random.normal(key, shape) for key, shape in zip(keys, shapes, strict=True)]
    geometry = geometry_of(*inputs[:2], (stride, stride), "SAME", channels)
    assert_same_function(
        lambda x, w: onednn.convolution(x, w, geometry),
        lambda x, w: onednn.by_xla(x, w, kind="forward", geometry=geometry),
        inputs,
        1e-5,
    )


@needs_onednn
@pytest.mark.parametrize("outputs", [8, 16])  # oneDNN, Winograd
def test_onednn_gives_the_same_bits_twice(outputs):
    x, w, *_ = arrays(16, 16, 3, batch=7, channels=(16, outputs))
    geometry = geometry_of(x, w, (1, 1), "SAME")
    step = jax.jit(jax.grad(lambda w, x: jnp.sum(jnp.square(onednn.convolution(x, w, geometry)))))
    first = np.asarray(step(w, x))
    for _ in range(20):
        np.testing.assert_array_equal(step(w, x), first)


@needs_onednn
def test_a_network_by_onednn_has_xlas_derivatives():
    """The logits, their gradient and their product with a tangent, of a network with batch norm."""
    network = models.build(WideResNet(depth=10, width=1), classes=4)
    weights, other = (network.init(jax.random.key(seed), jnp.zeros((1, 16, 16, 3))) for seed in (0, 1))
    pictures = jax.random.normal(jax.random.key(2), (8, 16, 16, 3))

    def logits(params):
        return network.apply(params, weights.stats, pictures, train=True)[0]

    def all_of_it(params):
        value, along = jax.jvp(logits, (params,), (other.params,))
        return value, along, jax.grad(lambda params: jnp.sum(jnp.square(logits(params))))(params)

    ours = jax.jit(all_of_it).trace(weights.params)
    with portable():
        theirs = jax.jit(lambda params: all_of_it(params)).trace(weights.params)
    assert "onednn_convolution" in str(ours.jaxpr)
    assert "onednn_convolution" not in str(theirs.jaxpr)
    results = (traced.lower().compile()(weights.params) for traced in (ours, theirs))
    for a, b in zip(*map(jax.tree.leaves, results), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-4 * np.abs(b).max())
