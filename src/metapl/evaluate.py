"""How good a trained network is on the examples it is asked about at the end."""

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from metapl.train import Trained, over_seeds
from metapl.types import Array, Network, Weights


def logits(network: Network, weights: Weights, inputs: Array) -> Array:
    """Answers of each seed's network to its own inputs: [R, N, ...] → [R, N, C]."""

    def answer(weights: Weights, inputs: Array) -> Array:
        return network.apply(weights.params, weights.stats, inputs, train=False)[0]

    return jax.jit(over_seeds(answer, shared=0))(weights, inputs)


def accuracies(trained: Trained) -> NDArray[np.float64]:
    """Share of each seed's test examples that its network gets right: [R]."""
    inputs = jnp.stack([dataset.test for dataset in trained.datasets])
    labels = np.stack([dataset.test_labels for dataset in trained.datasets])
    guesses = np.asarray(logits(trained.network, trained.weights, inputs)).argmax(-1)
    return (guesses == labels).mean(-1)
