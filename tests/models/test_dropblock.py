"""DropBlock: squares, their share, the scale of what is kept, and where ResNet puts it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl import models
from metapl.models.dropblock import DropBlock
from metapl.models.resnet import ResNet


def dropped(x, rate=0.2, size=3, seed=0):
    return np.asarray(DropBlock(rate, size).apply({}, x, train=True, rngs={"dropout": jax.random.key(seed)}))


def test_what_is_dropped_is_squares_and_the_mean_is_kept():
    x = jnp.ones((64, 12, 12, 8))
    y = dropped(x)
    kept = y > 0
    assert np.unique(y).size == 2
    assert y.mean() == pytest.approx(1, rel=1e-5)
    assert 0.7 < kept.mean() < 0.9  # overlapping squares drop less than their sum: 1 − 0.2 is the lower bound
    masks = np.moveaxis(~kept, -1, 1).reshape(-1, 12, 12)
    squares = np.lib.stride_tricks.sliding_window_view(masks, (3, 3), axis=(1, 2)).all((-1, -2))  # [N, 10, 10]
    for mask, corners in zip(masks[:50], squares[:50], strict=True):
        covered = np.zeros_like(mask)
        for row, column in zip(*np.nonzero(corners), strict=True):
            covered[row : row + 3, column : column + 3] = True
        np.testing.assert_array_equal(mask, covered)  # every dropped value lies in a dropped square
    assert len({mask.tobytes() for mask in masks}) > 100  # channels have their own


def test_evaluation_drops_nothing_and_small_maps_have_small_squares():
    x = jnp.ones((4, 2, 2, 3))
    np.testing.assert_array_equal(DropBlock(0.5, 7).apply({}, x, train=False), x)
    for picture in np.moveaxis(dropped(x, 0.5, 7), -1, 1).reshape(-1, 4):
        assert len(set(picture.tolist())) == 1  # the square is the whole map


def test_a_resnet_drops_in_its_last_two_stages_and_keeps_its_weights():
    x = jax.random.normal(jax.random.key(0), (4, 16, 16, 3))
    plain, with_drop = (models.build(ResNet(18, channels=4, stem="cifar", dropblock=d), 3) for d in (0.0, 0.4))
    weights = jax.jit(plain.init)(jax.random.key(1), x)
    assert jax.tree.structure(weights) == jax.tree.structure(jax.eval_shape(with_drop.init, jax.random.key(1), x))
    drop = jax.jit(lambda key: with_drop.apply(*weights, x, train=True, key=key)[0])
    assert not np.allclose(drop(jax.random.key(0)), drop(jax.random.key(1)))
    one, two = (jax.jit(lambda x, it=it: it.apply(*weights, x, train=False)[0])(x) for it in (with_drop, plain))
    np.testing.assert_allclose(one, two)
    program = str(jax.make_jaxpr(lambda: with_drop.apply(*weights, x, train=True, key=jax.random.key(0)))())
    # Two stages of two blocks: two convolutions and a shortcut each.
    assert (
        program.count("reduce_window_max")
        - str(jax.make_jaxpr(lambda: plain.apply(*weights, x, train=True, key=jax.random.key(0)))()).count(
            "reduce_window_max"
        )
        == 12
    )
