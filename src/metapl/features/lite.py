"""An encoder that was trained on ImageNet: an EfficientNet-Lite without its classifier.

    u = the picture, scaled bilinearly; its shorter side is as long as the settings say
    F = the mean over the picture of the last convolution's output for (u − 127) / 128: 1,280 numbers from 0 to 6
    x = (F − μ) / σ

| symbol | name                                                                     |
|--------|--------------------------------------------------------------------------|
| μ, 1/σ | mean, factor: of each feature, over a sample of the pictures, unlabelled |

A grey picture is repeated in three channels.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from numpy.typing import NDArray

from metapl import models
from metapl.augment.views import Augmentation
from metapl.inference.forward import Forward
from metapl.models import packages
from metapl.models.efficientnet_lite import MEAN, SCALE, EfficientNetLite
from metapl.schema import ConfigError, from_dict
from metapl.types import Array, Weights
from metapl.weights import load_all

SAMPLE = 1000  # pictures that the scale is learnt from
# Pictures encoded at a time. 256 pictures of 64×64 at 128 px on one core, processor time for each 1,000: all at once
# 8.1 s (1.3 GB of memory), in pieces of 64 7.1 s (0.8 GB), in pieces of 32 6.2 s (0.7 GB).
BATCH = 32

Pictures = NDArray[np.uint8]  # [N, H, W, C]
Pool = Callable[[Array], Array]  # pictures -> F


class Scale(NamedTuple):
    """What turns F into features of mean 0 and deviation 1."""

    mean: Array  # [1280]
    factor: Array  # [1280]


def load(name: str, size: int) -> Pool:
    """Read the network of this name: the function from pictures to F, a pytree of the network's weights."""
    model = from_dict(EfficientNetLite, {"variant": name.removeprefix("efficientnet_")}, {})
    network = models.build(model, classes=1000)
    expected = jax.eval_shape(network.init, jax.random.key(0), jnp.zeros((1, 64, 64, 3)))
    weights = load_all(packages.file_of(name), expected)
    forward = Forward(network, Augmentation(), output="features")
    return Partial(partial(pool, forward, size), jax.tree.map(jnp.asarray, weights))


def pool(forward: Forward, size: int, weights: Weights, pictures: Array) -> Array:
    """Compute F of pictures [N, H, W, 1 or 3] of uint8: [N, 1280]; pure."""
    height, width, channels = pictures.shape[1:]
    if channels not in (1, 3):
        raise ConfigError(f"networks trained on ImageNet take grey or colour pictures, not {channels} channels")
    shorter = min(height, width)
    sides = round(height * size / shorter), round(width * size / shorter)
    scaled = jax.image.resize(pictures.astype(jnp.float32), (len(pictures), *sides, channels), "linear")
    return forward(weights, (jnp.broadcast_to(scaled, (*scaled.shape[:3], 3)) - MEAN) / SCALE)


def learn_scale(pool: Pool, pictures: Sequence[Pictures]) -> Scale:
    """Learn μ and σ from a sample of the pictures, repeatably."""
    draw, total = np.random.RandomState(0), sum(map(len, pictures))
    compiled = jax.jit(lambda pool, batch: pool(batch))
    features = []
    for array in pictures:
        wanted = -(-SAMPLE * len(array) // total)
        rows = np.sort(draw.permutation(len(array))[:wanted])
        for start in range(0, len(rows), BATCH):
            features.append(np.asarray(compiled(pool, array[rows[start : start + BATCH]])))
    values = np.concatenate(features)
    mean, deviation = values.mean(0), values.std(0)
    factor = np.where(deviation > 0, 1 / np.maximum(deviation, 1e-3), 0)  # 1e-3: a feature that hardly ever moves
    return Scale(jnp.asarray(mean), jnp.asarray(factor, jnp.float32))


def encode(pool: Pool, scale: Scale, pictures: Array) -> Array:
    """Compute the features of pictures [N, H, W, C] of uint8: [N, 1280]; pure."""
    if len(pictures) > BATCH and len(pictures) % BATCH == 0:
        pieces = pictures.reshape(-1, BATCH, *pictures.shape[1:])
        features = jax.lax.map(pool, pieces).reshape(len(pictures), -1)
    else:
        features = pool(pictures)
    return (features - scale.mean) * scale.factor
