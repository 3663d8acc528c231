"""The network with a stem that whitens patches."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from metapl import models
from metapl.features import whitening
from metapl.models.whitened import Whitened, largest_of_four
from metapl.optim import Optimizer, build


@pytest.mark.parametrize(("height", "width"), [(6, 4), (7, 5), (2, 3)])
def test_a_pool_takes_the_largest_of_four_pixels(height, width):
    x = jax.random.normal(jax.random.key(0), (2, height, width, 3))
    np.testing.assert_array_equal(largest_of_four(x), nn.max_pool(x, (2, 2), (2, 2)))


def test_a_single_row_is_pooled_along_its_columns_only():
    x = jnp.arange(4.0).reshape(1, 1, 4, 1)
    assert largest_of_four(x).ravel().tolist() == [1, 3]


@pytest.mark.parametrize("side", [1, 4, 8, 33])
def test_it_takes_pictures_of_any_side_and_number_of_channels(side):
    network = models.build(Whitened(width=4), 3)
    pictures = jnp.ones((2, side, side, 1))
    weights = network.init(jax.random.key(0), pictures)
    logits, _ = network.apply(weights.params, weights.stats, pictures, train=True)
    assert logits.shape == (2, 3)
    assert weights.params["stem_conv"]["kernel"].shape == (3, 3, 1, 18)


def test_the_default_has_few_weights():
    weights = models.build(Whitened(), 10).init(jax.random.key(0), jnp.ones((1, 32, 32, 3)))
    assert sum(leaf.size for leaf in jax.tree.leaves(weights.params)) == 304_892


def test_the_first_frozen_layer_is_the_stem():
    network = models.build(Whitened(width=4), 3)
    weights = network.init(jax.random.key(0), jnp.ones((1, 8, 8, 3)))
    descent = build(Optimizer(weight_decay=0.1, frozen_layers=1), 10)
    ones = jax.tree.map(jnp.ones_like, weights.params)
    updates, _ = descent.update(ones, descent.init(weights.params), weights.params)
    moved = {name for name, layer in updates.items() if any(np.any(leaf) for leaf in jax.tree.leaves(layer))}
    assert moved == set(weights.params) - {"stem_conv"}


def smooth_pictures() -> np.ndarray:
    """Neighbouring pixels and channels are alike, as in photos."""
    draw = np.random.RandomState(0)
    coarse = np.kron(draw.randint(0, 255, (40, 4, 4, 1)), np.ones((1, 4, 4, 1)))
    return np.clip(coarse + draw.normal(0, 20, (40, 16, 16, 3)), 0, 255).astype(np.uint8)


def test_the_stem_whitens_patches_of_the_pictures():
    pictures = smooth_pictures()
    mean, std = whitening.moments(pictures)
    kernel = whitening.stem(pictures, mean, std)
    normalised = (pictures / 255 - np.array(mean)) / np.array(std)
    assert abs(normalised.mean((0, 1, 2))).max() < 0.01
    outputs = jax.lax.conv_general_dilated(
        jnp.float32(normalised), kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    z = np.asarray(outputs, np.float64).reshape(-1, kernel.shape[-1])
    np.testing.assert_allclose(z[:, 27:], -z[:, :27], atol=1e-6)
    products = z[:, :27].T @ z[:, :27] / len(z)
    np.testing.assert_allclose(products - np.diag(np.diag(products)), 0, atol=0.01)
    assert 0.8 < np.diag(products).min() <= np.diag(products).max() < 1.01


def test_pictures_of_one_colour_give_a_finite_stem():
    pictures = np.full((3, 8, 8, 1), 7, np.uint8)
    assert np.isfinite(whitening.stem(pictures, *whitening.moments(pictures))).all()
