"""Both ways of a depthwise convolution are one function, with one derivative of every kind."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl.models.convolution import geometry_of
from metapl.models.depthwise import DepthwiseConv, _explicit, convolution, shifted_products
from metapl.models.shifted_products import depthwise
from tests.models.test_convolution import assert_same_function

CASES = [
    (8, 9, 3, 1, "SAME"),
    (8, 9, 3, 2, "SAME"),
    (7, 6, 5, 2, "SAME"),
    (9, 8, 5, 2, 2),
    (6, 6, 3, 1, 1),
    (2, 2, 5, 1, "SAME"),
]


def arrays(height, width, size):
    keys = jax.random.split(jax.random.key(0), 4)
    shapes = ((2, height, width, 3), (size, size, 1, 3)) * 2
    return [jax.random.normal(key, shape) for key, shape in zip(keys, shapes, strict=True)]


@pytest.mark.parametrize(("height", "width", "size", "stride", "padding"), CASES)
def test_shifted_products_are_the_grouped_convolution(height, width, size, stride, padding):
    x, w, dx, dw = arrays(height, width, size)
    pads = _explicit(padding, (height, width), size, stride)
    ways = [lambda x, w, way=way: way(x, w, stride, pads) for way in (convolution, shifted_products)]
    (y, dy), (other, other_dy) = (jax.jvp(way, (x, w), (dx, dw)) for way in ways)
    np.testing.assert_allclose(y, other, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(dy, other_dy, rtol=1e-4, atol=1e-4)
    back, other_back = (jax.vjp(way, x, w)[1](dy) for way in ways)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), back, other_back)


@pytest.mark.parametrize(("height", "width", "size", "stride", "padding"), CASES)
def test_the_primitive_has_all_derivatives_of_the_grouped_convolution(height, width, size, stride, padding, float64):
    inputs = [array.astype(jnp.float64) for array in arrays(height, width, size)]
    pads = _explicit(padding, (height, width), size, stride)
    geometry = geometry_of(*inputs[:2], (stride, stride), pads, 3)
    assert_same_function(
        lambda x, w: depthwise(x, w, geometry), lambda x, w: convolution(x, w, stride, pads), inputs, 1e-13
    )


def test_the_layer_takes_the_quick_way_on_a_cpu_and_the_usual_one_elsewhere():
    layer = DepthwiseConv(3, 2, "SAME", jnp.dtype("float32"), jax.nn.initializers.lecun_normal())
    x = jnp.ones((2, 8, 8, 4))
    weights = layer.init(jax.random.key(0), x)
    assert weights["params"]["kernel"].shape == (3, 3, 1, 4)
    lowered = {
        platform: jax.jit(layer.apply).trace(weights, x).lower(lowering_platforms=(platform,)).as_text()
        for platform in ("cpu", "tpu")
    }
    assert "stablehlo.convolution" not in lowered["cpu"]
    assert "stablehlo.convolution" in lowered["tpu"]
