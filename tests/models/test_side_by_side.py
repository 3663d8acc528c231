"""Networks side by side: each sees the pictures that it takes, and gives the features that it gives alone."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl import models
from metapl.features import patches
from metapl.features.frozen import Frozen
from metapl.models.assemble import Encoder, side_by_side
from metapl.models.heads import Heads, as_encoder_takes
from metapl.models.patches import Patches
from metapl.models.side_by_side import SideBySide, Takes
from metapl.models.wide_resnet import WideResNet
from metapl.types import Weights

PATCHES = Patches(side=3, scales=(1, 2), centroids=8, components=5)


@pytest.fixture(scope="module")
def pictures() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (12, 20, 20, 3), np.uint8)


def network(size: int, mean: tuple[float, ...]) -> Encoder:
    model = Heads(WideResNet(depth=10, width=1), size)
    params, stats = jax.jit(models.build(model, 3).init)(jax.random.key(size), jnp.zeros((1, 8, 8, 3)))
    draw = np.random.default_rng(size)
    scale = {"mean": jnp.asarray(draw.normal(size=64), jnp.float32), "factor": jnp.ones(64)}
    return Encoder(model, Weights({"encoder": params["encoder"], "scale": scale}, stats), mean, (0.5,))


@pytest.fixture(scope="module")
def of_patches(pictures) -> Encoder:
    return patches.frozen(patches.learn(pictures, PATCHES, 12), PATCHES, 12).encoder


def test_each_network_sees_the_pictures_that_it_takes(pictures, of_patches):
    both = network(24, (0.4, 0.5, 0.6)), of_patches
    expected = np.concatenate([Frozen(one)(pictures) for one in both], -1)
    joined = side_by_side(both)
    assert [own.size for own in joined.model.encoder.takes] == [24, 12]
    np.testing.assert_allclose(Frozen(joined)(pictures), expected, rtol=1e-4, atol=1e-4)
    assert models.scaled_to(joined.model) == 24  # what bounds the memory of a batch


def test_one_network_may_see_mirror_images_too(pictures, of_patches):
    own = network(24, (0.4, 0.5, 0.6))
    both = own._replace(model=dataclasses.replace(own.model, mirror=True)), of_patches
    alone = Frozen(own)
    expected = np.concatenate([(alone(pictures) + alone(pictures[:, :, ::-1])) / 2, Frozen(of_patches)(pictures)], -1)
    np.testing.assert_allclose(Frozen(side_by_side(both))(pictures), expected, rtol=1e-4, atol=1e-4)


def test_networks_that_take_the_same_pictures_see_them_scaled_once(pictures):
    both = network(24, (0.5,)), network(24, (0.5,))
    joined = side_by_side(both)
    assert joined.model.encoder.takes == ()
    assert models.scaled_to(joined.model) == 24
    np.testing.assert_allclose(
        Frozen(joined)(pictures), np.concatenate([Frozen(one)(pictures) for one in both], -1), atol=1e-5
    )


def test_it_says_of_every_network_or_of_none_what_it_takes():
    with pytest.raises(ValueError, match="takes has 1 entries for 2 networks"):
        SideBySide(takes=(Takes(),)).check()


def test_patches_of_large_pictures_are_learnt_from_shrunk_ones(pictures):
    shrunk = np.asarray(as_encoder_takes(jnp.asarray(pictures, jnp.float32), 12, colour=False))
    assert shrunk.shape == (12, 12, 12, 3)
    learnt = patches.learn(pictures, PATCHES, 12), patches.learn(shrunk, PATCHES)
    jax.tree.map(np.testing.assert_array_equal, *learnt)
