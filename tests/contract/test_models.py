"""What every model must do, whichever it is: a new row in the table is tested by itself.

A model that is slow at its defaults has small settings in SMALL; one that eats something else than small pictures says
so in SHAPES. A model in neither is tested as it is, on pictures.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl import models
from metapl.algorithms.losses import cross_entropy
from metapl.models.mlp import MLP
from metapl.models.wide_resnet import WideResNet

SMALL = {WideResNet: WideResNet(depth=10, width=1)}
SHAPES = {MLP: (2,)}

pytestmark = pytest.mark.parametrize("kind", models.MODELS, ids=lambda kind: kind.name)


def test_both_modes_answer_and_the_gradient_is_finite(kind):
    network = models.build(SMALL.get(kind, kind()), classes=3)
    x = jax.random.normal(jax.random.key(0), (5, *SHAPES.get(kind, (8, 8, 3))))
    params, stats = network.init(jax.random.key(1), x)
    answer, same_stats = jax.jit(lambda: network.apply(params, stats, x, train=False))()
    trained, new_stats = jax.jit(lambda: network.apply(params, stats, x, train=True, key=jax.random.key(2)))()
    assert answer.shape == trained.shape == (5, 3)
    assert answer.dtype == jnp.float32
    jax.tree.map(np.testing.assert_array_equal, same_stats, stats)
    assert jax.tree.structure(new_stats) == jax.tree.structure(stats)

    @jax.jit
    def loss(params):
        return cross_entropy(
            jnp.array([0, 1, 2, 0, 1]), network.apply(params, stats, x, train=True, key=jax.random.key(2))[0]
        )

    gradient = jax.grad(loss)(params)
    assert all(np.isfinite(leaf).all() and np.any(leaf != 0) for leaf in jax.tree.leaves(gradient))
