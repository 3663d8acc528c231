"""Whose weights a file holds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import save_file

from metapl import models
from metapl.models.convnext import ConvNeXt
from metapl.models.efficientnet import EfficientNet
from metapl.models.mlp import MLP
from metapl.models.resnet import ResNet
from metapl.models.vit import ViT
from metapl.schema import ConfigError, to_dict
from metapl.start_from import recognise as recognising
from metapl.start_from.recognise import IMAGENET, Pretrained, recognise
from metapl.weights import save
from tests.models import timm_like
from tests.models.to_timm import to_timm


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
    with pytest.raises(ConfigError, match="neither from a run of metapl nor one of timm's networks"):
        recognise(str(tmp_path / "other.safetensors"))


@pytest.mark.parametrize(("name", "model"), [("resnet50", ResNet(depth=50)), ("tf_efficientnet_b0", EfficientNet())])
def test_timms_networks_are_recognised_by_what_fits(tmp_path, name, model):
    tensors = {key: np.zeros(shape, np.float32) for key, shape in timm_like.shapes(name).items()}
    save_file(tensors, tmp_path / f"{name}.safetensors")
    file = tmp_path / f"{name}.safetensors"
    assert recognise(str(file)) == Pretrained(model, file, *IMAGENET)


OF_SHAPES = {
    "vit_base_patch16_384": ViT("b", resolution=384),
    "vit_small_patch14_dinov2": ViT("s", 14, 518, layer_scale=1e-5),
    "vit_small_patch14_reg4_dinov2": ViT("s", 14, 518, registers=4, position_of_tokens=False, layer_scale=1e-5),
    "deit3_small_patch16_224": ViT("s", position_of_tokens=False, layer_scale=1e-5),
    "vit_tiny_patch16_224, averaged": ViT("ti", pooling="mean"),
    "vit_large_patch16_gap_224": ViT("l", pooling="mean", class_token=False),
    "convnext_tiny": ConvNeXt("t"),
    "convnext_base": ConvNeXt("b"),
    "a small convnext": ConvNeXt(channels=4, blocks=(1, 2, 1, 1)),
}


@pytest.mark.parametrize("name", OF_SHAPES)
def test_settings_are_read_off_the_shapes(name):
    model = OF_SHAPES[name]
    leaves = jax.tree_util.tree_leaves_with_path({"params": recognising.weight_shapes(model).params})
    ours = {"/".join(step.key for step in path): np.broadcast_to(np.float32(0), leaf.shape) for path, leaf in leaves}
    theirs = to_timm(ours, model.name, fc_norm=getattr(model, "pooling", "") == "mean")
    shapes = {key: value.shape for key, value in theirs.items()}
    read_off = recognising._vit if isinstance(model, ViT) else recognising._convnext
    assert read_off(shapes) == model
