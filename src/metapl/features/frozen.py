"""An encoder as a function of pictures: compiled once, for batches of one size, whoever asks.

The features are those that the heads of a network of heads are given (models/heads.py), computed by that very network:
what is stored on disk and what an assembled network computes for a picture differ by rounding alone.
"""

from functools import partial

import jax
import numpy as np
from numpy.typing import NDArray

from metapl import models
from metapl.augment.views import Augmentation
from metapl.inference.forward import Forward
from metapl.models.assemble import Encoder, assemble, linear
from metapl.types import Array, Weights

# Pictures encoded at a time. 256 pictures of 64×64 by EfficientNet-Lite0 at 128 px on one core, processor time for each
# 1,000: all at once 8.1 s (1.3 GB of memory), in pieces of 64 7.1 s (0.8 GB), in pieces of 32 6.2 s (0.7 GB).
BATCH = 32

Pictures = NDArray[np.uint8]  # [N, H, W, C]
Values = NDArray[np.float32]  # [N, D]


class Frozen:
    """Features of any number of pictures."""

    def __init__(self, encoder: Encoder, batch: int = BATCH) -> None:
        self.encoder, self._batch = encoder, batch
        self._width = len(encoder.weights.params["scale"]["mean"])
        model, weights = assemble(encoder, [linear(np.zeros((2, self._width)), np.zeros(2))])  # of no importance
        view = Augmentation(mean=encoder.mean, std=encoder.std)
        self._forward, self._weights = Forward(models.build(model, 2), view, output="features"), weights
        self._compiled = jax.jit(partial(_encode, self._forward))

    def __call__(self, pictures: Pictures) -> Values:
        """Compute the features: [N, D]."""
        features = np.empty((len(pictures), self._width), np.float32)
        for start in range(0, len(pictures), self._batch):
            batch = pictures[start : start + self._batch]
            filled = np.concatenate([batch, np.repeat(batch[-1:], self._batch - len(batch), 0)])
            features[start : start + len(batch)] = self._compiled(self._weights, filled)[: len(batch)]
        return features

    def width(self, shape: tuple[int, ...]) -> int:
        """D, whatever the pictures' shape."""
        del shape
        return self._width

    def scaled(self, mean: Values, factor: Values) -> "Frozen":
        """Return the same encoder with this scale; nothing is compiled again."""
        scale = {"mean": jax.numpy.asarray(mean), "factor": jax.numpy.asarray(factor, jax.numpy.float32)}
        weights = self.encoder.weights
        other = Frozen.__new__(Frozen)
        other.__dict__ |= self.__dict__
        other.encoder = self.encoder._replace(weights=Weights(weights.params | {"scale": scale}, weights.stats))
        other._weights = Weights(self._weights.params | {"scale": scale}, weights.stats)
        return other


def _encode(forward: Forward, weights: Weights, pictures: Array) -> Array:
    return forward(weights, pictures)
