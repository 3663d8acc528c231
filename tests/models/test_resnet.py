"""ResNet: its size, where it halves pictures, and how it starts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import traverse_util

from metapl import models
from metapl.models import resnet
from metapl.models.resnet import ResNet


@pytest.mark.parametrize(("depth", "count"), [(18, 11_689_512), (50, 25_557_032)])
def test_parameter_counts(depth, count):
    network = models.build(ResNet(depth=depth), classes=1000)
    weights = jax.eval_shape(network.init, jax.random.key(0), jnp.zeros((1, 64, 64, 3)))
    assert sum(leaf.size for leaf in jax.tree.leaves(weights.params)) == count


def sides(config, side):
    """Height of what each layer gives, by its path."""
    module, x = resnet.build(config, 10), jnp.zeros((1, side, side, 3))
    _, state = jax.eval_shape(
        lambda: module.init_with_output(jax.random.key(0), x, train=False, capture_intermediates=True)
    )
    outputs = traverse_util.flatten_dict(state["intermediates"])
    return {"/".join(path[:-1]): y.shape[1] for path, (*_, y) in outputs.items() if y.ndim == 4}


def test_the_stride_is_on_the_3x3_convolution():
    height = sides(ResNet(depth=50), 64)
    assert height["stem_conv"] == 32
    assert height["stage1_block0/conv1"] == 16  # after the max-pool
    assert height["stage2_block0/conv1"] == 16
    assert height["stage2_block0/conv2"] == height["stage2_block0/shortcut_conv"] == 8
    assert height["stage4_block2/conv3"] == 2


def test_small_pictures_enter_as_they_are():
    height = sides(ResNet(depth=18, stem="cifar"), 32)
    assert height["stem_conv"] == height["stage1_block1/conv2"] == 32
    assert height["stage2_block0/conv1"] == 16
    assert height["stage4_block1/conv2"] == 4


@pytest.mark.parametrize("zero_init", [True, False])
def test_a_block_starts_as_its_shortcut(zero_init):
    block = resnet.ResidualBlock(ResNet(depth=50, zero_init=zero_init), 2, 1)
    x = jax.random.normal(jax.random.key(0), (2, 4, 4, 8))
    answer, _ = jax.jit(lambda: block.init_with_output(jax.random.key(1), x, False))()
    assert np.allclose(answer, np.maximum(x, 0)) == zero_init


def test_zeros_are_padded_on_both_sides_alike():
    """PyTorch's way: with stride 2, TensorFlow's would begin one pixel further."""
    block = resnet.ResidualBlock(ResNet(depth=18, zero_init=False, norm_epsilon=1e-12), 1, 2)
    x = jnp.zeros((1, 4, 4, 1)).at[0, 0, 0, 0].set(1.0)
    variables = block.init(jax.random.key(0), x, False)
    kernel = jnp.zeros((3, 3, 1, 1)).at[1, 1].set(1.0)  # the pixel itself
    params = {**variables["params"], "conv1": {"kernel": kernel}, "conv2": {"kernel": kernel}}
    params["shortcut_conv"] = {"kernel": jnp.zeros((1, 1, 1, 1))}
    answer = block.apply({**variables, "params": params}, x, False)
    np.testing.assert_allclose(answer[0, :, :, 0], [[1.0, 0.0], [0.0, 0.0]], atol=1e-6)
