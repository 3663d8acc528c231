"""WideResNet: its size, and its answers against the same network written down without flax."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from metapl import models
from metapl.models.wide_resnet import WideResNet
from metapl.schema import ConfigError, validate

quick_jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})


def shapes(config, classes=10, side=32):
    network = models.build(config, classes)
    return jax.eval_shape(network.init, jax.random.key(0), jnp.zeros((1, side, side, 3)))


@pytest.mark.parametrize(
    ("depth", "width", "count"), [(28, 2, 1_467_610), (28, 10, 36_479_194), (16, 2, 691_674), (10, 1, 77_850)]
)
def test_parameter_counts(depth, width, count):
    weights = shapes(WideResNet(depth=depth, width=width))
    assert sum(leaf.size for leaf in jax.tree.leaves(weights.params)) == count


def test_a_depth_that_is_not_6n_plus_4_is_refused():
    with pytest.raises(ConfigError, match=r"depth takes 6n \+ 4 .*, got 27"):
        validate(WideResNet(depth=27))


def conv(x, kernel, stride=1):
    return lax.conv_general_dilated(x, kernel, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def norm_act(x, weights, name, slope=0.1):
    axes = (0, 1, 2)
    scale, bias = (weights[name][key] for key in ("scale", "bias"))
    x = (x - x.mean(axes)) / jnp.sqrt(x.var(axes) + 1e-3) * scale + bias
    return jnp.where(x > 0, x, slope * x)


def written_down(params, x):
    """WideResNet-10-1 in training mode: one block in each stage."""
    x = conv(x, params["stem_conv"]["kernel"])
    for stage, stride in ((1, 1), (2, 2), (3, 2)):
        block = params[f"stage{stage}_block0"]
        first = norm_act(x, block, "norm1")
        shortcut = conv(first, block["shortcut_conv"]["kernel"], stride) if stage > 1 else x
        second = norm_act(conv(first, block["conv1"]["kernel"], stride), block, "norm2")
        x = shortcut + conv(second, block["conv2"]["kernel"])
    features = norm_act(x, params, "head_norm").mean((1, 2))
    return features @ params["head"]["kernel"] + params["head"]["bias"]


def test_it_computes_what_its_docstring_says():
    network = models.build(WideResNet(depth=10, width=1), classes=3)
    x = jax.random.normal(jax.random.key(0), (4, 8, 8, 3))
    shapes, stats = jax.eval_shape(network.init, jax.random.key(1), x)
    draw = np.random.default_rng(0)
    params = jax.tree.map(lambda leaf: jnp.asarray(0.2 * draw.normal(size=leaf.shape), leaf.dtype), shapes)
    stats = jax.tree.map(lambda leaf: jnp.ones(leaf.shape), stats)
    answer, _ = quick_jit(lambda: network.apply(params, stats, x, train=True))()
    np.testing.assert_allclose(answer, quick_jit(written_down)(params, x), rtol=1e-3, atol=1e-4)


def test_first_weights_are_hes():
    network = models.build(WideResNet(depth=10, width=4), classes=10)
    params = quick_jit(network.init)(jax.random.key(0), jnp.zeros((1, 8, 8, 3))).params
    for stage, features in ((1, 64), (2, 128), (3, 256)):
        kernel = params[f"stage{stage}_block0"]["conv2"]["kernel"]
        np.testing.assert_allclose(np.std(kernel), np.sqrt(2 / (9 * features)), rtol=0.02)
    np.testing.assert_allclose(np.var(params["head"]["kernel"]), 2 / (256 + 10), rtol=0.1)
