"""Any pretrained network as an encoder: its own preprocessing, with or without a classifier in its file."""

import dataclasses
from pathlib import Path

import jax
import numpy as np
import pytest
from safetensors.numpy import load, save_file

from metapl import models
from metapl.augment.views import Augmentation
from metapl.data.sources.features import Features
from metapl.features import encoders, network
from metapl.inference.forward import Forward
from metapl.models.mlp import MLP
from metapl.schema import ConfigError, validate
from metapl.start_from import recognise as recognising
from metapl.start_from.recognise import Pretrained, recognise
from metapl.weights import load_features
from tests.start_from.test_hub import WEIGHTS

PICTURES = np.random.default_rng(0).integers(0, 256, (3, 16, 16, 3), np.uint8)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A small ViT of timm without its classifier, as DINOv2's files are."""
    path = tmp_path_factory.mktemp("weights") / "model.safetensors"
    tensors = load(WEIGHTS)
    save_file({name: tensor for name, tensor in tensors.items() if not name.startswith("head")}, path)
    return path


def test_features_are_those_that_the_classifier_would_see(file, monkeypatch, tmp_path):
    mean, std = (0.5, 0.4, 0.3), (0.2, 0.3, 0.4)
    found = recognise(str(file))._replace(mean=mean, std=std, side=16)
    monkeypatch.setattr(network, "recognise", lambda name: found)
    encode = network.load(str(file), 0)
    own = models.build(found.model, 1000)
    weights = load_features(file, recognising.weight_shapes(found.model))
    expected = jax.jit(Forward(own, Augmentation(mean=mean, std=std), output="features"))(weights, PICTURES)
    assert expected.shape == (3, 16)
    np.testing.assert_allclose(encode(PICTURES), expected, atol=1e-5)
    assert network.load(str(file), 32).encoder.model.size == 32


def test_it_is_chosen_by_init_from(file, tmp_path):
    config = Features(encoder="network", init_from=str(file), encoder_size=32)
    validate(config)
    encode = encoders.build(config, lambda most: [PICTURES], tmp_path / "kept", print)
    features = encode(PICTURES)
    np.testing.assert_allclose(features.mean(0), 0, atol=1e-4)  # scaled by what these pictures have
    first, other_size = (encoders.identity(config), encoders.identity(dataclasses.replace(config, encoder_size=64)))
    assert first != other_size


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"encoder": "network"}, "encoder 'network' needs init_from"),
        ({"init_from": "x.safetensors"}, "encoder 'network' needs init_from, and the others take none"),
        ({"encoder_size": 16}, "encoder_size takes a number of at least 32, got 16"),
    ],
)
def test_settings_must_fit_together(settings, words):
    with pytest.raises(ConfigError, match=words):
        validate(Features(**settings))


def test_a_missing_file_is_a_sentence():
    with pytest.raises(ConfigError, match=r"data\.init_from: nowhere is not a file"):
        encoders.identity(Features(encoder="network", init_from="nowhere"))


def test_a_perceptron_is_no_encoder():
    with pytest.raises(ConfigError, match=r"own: the network mlp cannot encode pictures"):
        network.of(Pretrained(MLP(), Path("own")), 32, "own")
