"""ViT and ConvNeXt answer as PyTorch copies with timm's names do, and both kinds of names lead to each other."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import save_file

from metapl import models
from metapl.models.convnext import ConvNeXt
from metapl.models.pretrained import from_timm
from metapl.models.vit import ViT
from metapl.weights import _flat, load
from tests.models import timm_like
from tests.models.small_timm import NETWORKS, OURS, filled, tensor, tensors
from tests.models.to_timm import to_timm

SIDES = {"native": (16, 16), "larger": (33, 46), "smaller": (12, 8)}


@functools.cache
def expected(name):
    return jax.eval_shape(models.build(OURS[name], 3).init, jax.random.key(0), jnp.zeros((1, 32, 32, 3)))


def answers(name, weights, pictures):
    network = models.build(OURS[name], 3)
    return jax.jit(lambda weights, x: network.apply(weights.params, weights.stats, x, train=False)[0])(
        weights, pictures
    )


def named_as_timm_does(name):
    """Our network's tensors under timm's names, with the numbers that the formula gives to those names."""
    config = OURS[name]
    ours = {key: np.zeros(leaf.shape, np.float32) for key, leaf in _flat(expected(name)).items()}
    theirs = to_timm(ours, config.name, fc_norm=getattr(config, "pooling", "") == "mean")
    return {key: tensor(key, value.shape) for key, value in theirs.items()}


def loaded(name, values, tmp_path):
    save_file({key: np.ascontiguousarray(value) for key, value in values.items()}, tmp_path / "model.safetensors")
    weights, note = load(tmp_path / "model.safetensors", expected(name))
    assert note == ""
    return weights


COUNTS = {
    ViT("ti"): 5_717_416,
    ViT("s"): 22_050_664,
    ViT("b"): 86_567_656,
    ViT("l"): 304_326_632,
    ViT("b", patch=32): 88_224_232,
    ConvNeXt("t"): 28_589_128,
    ConvNeXt("s"): 50_223_688,
    ConvNeXt("b"): 88_591_464,
    ConvNeXt("l"): 197_767_336,
}


@pytest.mark.parametrize("config", COUNTS, ids=lambda config: f"{config.name}-{config.variant}")
def test_the_published_numbers_of_parameters(config):
    looped = dataclasses.replace(config, scan=True)  # the same weights, traced in a fraction of the time
    shapes = jax.eval_shape(models.build(looped, 1000).init, jax.random.key(0), jnp.zeros((1, 64, 64, 3)))
    assert sum(leaf.size for leaf in jax.tree.leaves(shapes.params)) == COUNTS[config]


# What `python -m tests.models.torch_copies` printed (PyTorch 2.13.0, CPU), for pictures of 33×46.
STORED = {
    "vit, mean with a token": [[0.55148524, 0.88649, -1.0382272], [1.8321973, -0.4459477, -2.0586152]],
    "vit, registers": [[0.84736645, -0.3337914, -0.42761016], [1.0532019, -0.51446265, 0.10898803]],
    "convnext": [[0.8292248, 1.9135548, -0.4338626], [0.8040317, 0.70641196, -0.22538155]],
}


@pytest.mark.parametrize("name", STORED)
def test_stored_logits_are_met(name, tmp_path):
    weights = loaded(name, named_as_timm_does(name), tmp_path)
    np.testing.assert_allclose(answers(name, weights, timm_like.pictures(33, 46)), STORED[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", OURS)
def test_names_lead_to_each_other(name):
    theirs = named_as_timm_does(name)
    ours = from_timm(theirs)
    assert {key: value.shape for key, value in ours.items()} == {
        key: leaf.shape for key, leaf in _flat(expected(name)).items()
    }
    back = to_timm(ours, OURS[name].name, fc_norm="fc_norm.weight" in theirs)
    assert back.keys() == theirs.keys()
    assert all(np.array_equal(back[key], theirs[key]) for key in theirs)


@pytest.mark.parametrize("name", ["resnet18", "resnet50", "tf_efficientnet_b0"])
def test_so_do_those_of_the_networks_with_batch_norms(name):
    theirs = {key: np.zeros(shape, np.float32) for key, shape in timm_like.shapes(name).items()}
    back = to_timm(from_timm(theirs), "efficientnet" if "efficientnet" in name else "resnet")
    assert {key: value.shape for key, value in back.items()} == timm_like.shapes(name)


def test_a_network_that_timm_does_not_have_has_no_names_there():
    assert to_timm({}, "wide_resnet") is None


# --- against PyTorch --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", reason="PyTorch is not installed; the stored logits are tested all the same")


@pytest.mark.parametrize("name", OURS)
def test_answers_are_those_of_the_pytorch_copy(torch, name, tmp_path):
    """Within 1e-5 of the largest logit, at the positions' own size and at others, which are interpolated."""
    from tests.models import torch_copies

    kind, arguments = NETWORKS[name]
    copy = filled(getattr(torch_copies, kind)(**arguments))
    assert tensors(copy).keys() == named_as_timm_does(name).keys()
    weights = loaded(name, tensors(copy), tmp_path)
    for height, width in [(33, 46), (32, 40)] if name == "convnext" else SIDES.values():
        pictures = timm_like.pictures(height, width)
        with torch.no_grad():
            theirs = copy(torch.from_numpy(pictures).permute(0, 3, 1, 2)).numpy()
        ours = np.asarray(answers(name, weights, pictures))
        assert np.abs(ours - theirs).max() <= 1e-5 * np.abs(theirs).max()
