"""Learn the stem of the network `whitened` (models/whitened.py) from pictures, without labels.

    p         a patch of the pictures, normalised as the network sees them
    V Λ Vᵀ  = the mean of p pᵀ
    W       = V (Λ + LEAST)^(−½)

| symbol  | name            |
|---------|-----------------|
| V, Λ    | vectors, values |
| W       | whitening       |
"""

import jax
import numpy as np
from numpy.typing import NDArray

from metapl.models.whitened import SIDE

LEAST = 0.01  # directions that hold noise alone are not blown up
BATCH = 64

Pictures = NDArray[np.uint8]  # [N, H, W, C]


def moments(pictures: Pictures) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation of each channel, of pictures from 0 to 1."""
    values = pictures.reshape(-1, pictures.shape[-1])
    mean, deviation = values.mean(0, dtype=np.float64) / 255, values.std(0, dtype=np.float64) / 255
    return tuple(mean.round(4).tolist()), tuple(np.maximum(deviation, 1e-2).round(4).tolist())


def stem(pictures: Pictures, mean: tuple[float, ...], std: tuple[float, ...]) -> NDArray[np.float32]:
    """[W, −W] as the kernel of a convolution: [3, 3, C, 18 C]."""
    channels = pictures.shape[-1]
    product = jax.jit(_products)
    total = np.zeros((channels * SIDE**2,) * 2)
    for start in range(0, len(pictures), BATCH):
        normalised = (pictures[start : start + BATCH] / 255 - np.asarray(mean)) / np.asarray(std)
        total += np.asarray(product(normalised.astype(np.float32)), np.float64)
    values, vectors = np.linalg.eigh(total / len(pictures))
    whitening = (vectors / np.sqrt(np.maximum(values, 0) + LEAST)).reshape(channels, SIDE, SIDE, -1)
    kernel = whitening.transpose(1, 2, 0, 3)
    return np.concatenate([kernel, -kernel], -1).astype(np.float32)


def _products(pictures: jax.Array) -> jax.Array:
    """The sum over pictures of the mean of p pᵀ."""
    patches = jax.lax.conv_general_dilated_patches(
        pictures, (SIDE, SIDE), (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    flat = patches.reshape(-1, patches.shape[-1])
    return flat.T @ flat / (patches.shape[1] * patches.shape[2])
