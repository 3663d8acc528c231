"""The TwoMoon network of Section 3.1."""

import jax
import jax.numpy as jnp
import numpy as np

from metapl import models
from metapl.models.mlp import MLP


def test_it_is_the_papers_network():
    network = models.build(MLP(), classes=2)
    params, stats = network.init(jax.random.key(0), jnp.zeros((1, 2)))
    shapes = {name: (layer["kernel"].shape, layer["bias"].shape) for name, layer in params.items()}
    assert shapes == {"Dense_0": ((2, 8), (8,)), "Dense_1": ((8, 8), (8,)), "Dense_2": ((8, 2), (2,))}
    assert not stats
    everything = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(params)])
    assert np.abs(everything).max() <= 0.1
    assert np.std(everything) > 0.04  # uniform in ±0.1 has 0.058


def test_sigmoids_stand_between_the_layers():
    network = models.build(MLP(hidden=(1,)), classes=1)
    params = {
        "Dense_0": {"kernel": jnp.array([[1.0], [2.0]]), "bias": jnp.array([0.5])},
        "Dense_1": {"kernel": jnp.array([[3.0]]), "bias": jnp.array([-1.0])},
    }
    answer, _ = network.apply(params, {}, jnp.array([[1.0, -1.0]]), train=False)
    np.testing.assert_allclose(answer, [[3 / (1 + np.exp(0.5)) - 1]], rtol=1e-6)
