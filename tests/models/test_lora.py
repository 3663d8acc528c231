"""Adapters: nothing at first, part of the kernels when they are merged, and no part of a file to start from."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl import models
from metapl.models import lora
from metapl.models.vit import ViT
from metapl.types import ADAPTER
from metapl.weights import load, save, starting_from

PLAIN = ViT(patch=4, resolution=8, width=8, depth=2, heads=2)
ADAPTED = ViT(patch=4, resolution=8, width=8, depth=2, heads=2, lora_rank=3, lora_alpha=6.0)
X = jax.random.normal(jax.random.key(0), (3, 8, 8, 3))


def answers(config, params):
    network = models.build(config, 3)
    return jax.jit(lambda params: network.apply(params, {}, X, train=False)[0])(params)


@pytest.fixture(scope="module")
def plain():
    return models.build(PLAIN, 3).init(jax.random.key(1), X)


@pytest.fixture(scope="module")
def adapted(plain, tmp_path_factory):
    """The adapted network, started from the plain one's file."""
    path, network = tmp_path_factory.mktemp("weights") / "plain.safetensors", models.build(ADAPTED, 3)
    save(path, plain, {}, ["a", "b", "c"])
    loaded, note = load(path, jax.eval_shape(network.init, jax.random.key(0), X))
    assert note == ""
    return starting_from(network, loaded).init(jax.random.key(2), X)


def test_an_adapted_network_begins_as_the_plain_one(plain, adapted):
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(adapted.params)]
    assert sum(ADAPTER in path for path in paths) == 2 * 4 * 2  # down and up of four layers in two blocks
    np.testing.assert_array_equal(answers(ADAPTED, adapted.params), answers(PLAIN, plain.params))


def test_merged_it_computes_the_same(adapted):
    moved = jax.tree.map(lambda leaf: leaf + 0.3 * jax.random.normal(jax.random.key(3), leaf.shape), adapted.params)
    merged = lora.merged(moved, ADAPTED.lora_alpha)
    assert jax.tree.structure(merged) == jax.tree.structure(models.build(PLAIN, 3).init(jax.random.key(0), X).params)
    ours = answers(ADAPTED, moved)
    np.testing.assert_allclose(answers(PLAIN, merged), ours, rtol=1e-4, atol=1e-5)
    assert np.abs(ours - answers(ADAPTED, adapted.params)).max() > 0.1
    assert jnp.isfinite(ours).all()
