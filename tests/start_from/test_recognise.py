"""Whose weights a file holds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import save_file

from metapl import models
from metapl.models.efficientnet import EfficientNet
from metapl.models.mlp import MLP
from metapl.models.resnet import ResNet
from metapl.schema import ConfigError, to_dict
from metapl.start_from.recognise import IMAGENET, Pretrained, recognise
from metapl.weights import save
from tests.models import timm_like


def test_our_own_weights_say_of_which_network_they_are(tmp_path):
    model = MLP(hidden=(5,), activation="relu")
    weights = models.build(model, 3).init(jax.random.key(0), jnp.zeros((1, 4)))
    save(tmp_path / "own.safetensors", weights, to_dict(model), ["a", "b", "c"])
    assert recognise(str(tmp_path / "own.safetensors")) == Pretrained(model, tmp_path / "own.safetensors")


def test_other_files_are_refused_in_a_sentence(tmp_path):
    with pytest.raises(ConfigError, match="is not a file"):
        recognise(str(tmp_path / "missing.safetensors"))
    (tmp_path / "text.safetensors").write_text("no weights")
    with pytest.raises(ConfigError, match="cannot be read"):
        recognise(str(tmp_path / "text.safetensors"))
    save_file({"encoder.weight": np.zeros((2, 2), np.float32)}, tmp_path / "other.safetensors")
    with pytest.raises(ConfigError, match="neither from a run of metapl nor timm's"):
        recognise(str(tmp_path / "other.safetensors"))


@pytest.mark.parametrize(("name", "model"), [("resnet50", ResNet(depth=50)), ("tf_efficientnet_b0", EfficientNet())])
def test_timms_networks_are_recognised_by_what_fits(tmp_path, name, model):
    tensors = {key: np.zeros(shape, np.float32) for key, shape in timm_like.shapes(name).items()}
    save_file(tensors, tmp_path / f"{name}.safetensors")
    file = tmp_path / f"{name}.safetensors"
    assert recognise(str(file)) == Pretrained(model, file, *IMAGENET)
