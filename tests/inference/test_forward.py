"""One forward pass, whoever asks: one network, one seed of several, all seeds; logits, probabilities, features."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl import models
from metapl.augment.views import Augmentation
from metapl.inference.batches import ESTIMATOR, EVALUATION, PREDICTION, STORED_PREDICTIONS
from metapl.inference.forward import Forward, of_network, of_seed, of_seeds, weight_shapes, width
from metapl.models.mlp import MLP
from metapl.system.sharding import Layout

POINTS = np.random.default_rng(0).normal(size=(25, 4)).astype(np.float32)
NETWORK = models.build(MLP(hidden=(5,), init_range=1.0), 3)
WEIGHTS = jax.vmap(NETWORK.init, (0, None))(jax.random.split(jax.random.key(0), 2), POINTS[:1])
LOGITS = Forward(NETWORK, Augmentation())


def of_one(seed: int):
    return jax.tree.map(lambda leaf: leaf[seed], WEIGHTS)


def direct(seed: int) -> np.ndarray:
    weights = of_one(seed)
    return np.asarray(NETWORK.apply(weights.params, weights.stats, jnp.asarray(POINTS), train=False)[0])


@pytest.mark.parametrize("seed", [0, 1])
def test_all_ways_give_the_networks_logits(seed):
    for rule in (EVALUATION, STORED_PREDICTIONS, PREDICTION, ESTIMATOR):
        np.testing.assert_allclose(of_network(LOGITS, of_one(seed), POINTS, rule), direct(seed), rtol=1e-5, atol=1e-6)
    batches = of_seed(LOGITS, WEIGHTS, seed, POINTS, [10, 10, 5], first=10)
    np.testing.assert_allclose(np.concatenate(list(batches)), direct(seed)[10:], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(of_seeds(LOGITS, WEIGHTS, [POINTS], 9)[seed], direct(seed), rtol=1e-5, atol=1e-6)


def test_probabilities_are_divided_by_the_temperature():
    forward = Forward(NETWORK, Augmentation(), "probabilities", temperature=2.0)
    expected = jax.nn.softmax(direct(0) / 2)
    np.testing.assert_allclose(of_network(forward, of_one(0), POINTS, PREDICTION), expected, rtol=1e-5)


def test_features_are_what_the_last_layer_is_given():
    features = of_network(Forward(NETWORK, Augmentation(), "features"), of_one(0), POINTS, PREDICTION)
    head = of_one(0).params["Dense_1"]
    np.testing.assert_allclose(features @ head["kernel"] + head["bias"], direct(0), rtol=1e-4, atol=1e-5)


def test_shapes_are_known_without_computing():
    assert width(Forward(NETWORK, Augmentation(), "features"), of_one(0), POINTS) == 5
    assert of_network(LOGITS, of_one(0), POINTS[:0], PREDICTION).shape == (0, 3)
    shapes = weight_shapes(NETWORK, Augmentation(), POINTS[:1])
    assert jax.tree.map(lambda leaf: leaf.shape, shapes) == jax.tree.map(lambda leaf: leaf.shape, of_one(0))


def test_the_width_does_not_depend_on_where_the_arrays_are():
    """Stored predictions ask for it outside of any program, on several devices, too."""
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("data",))
    shared = dataclasses.replace(LOGITS, layout=Layout(mesh))
    assert width(shared, of_one(0), POINTS) == 3
