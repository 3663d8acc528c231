"""An encoder that needs no pretraining: patches that k-means learns from the pictures themselves (Coates et al., 2011).

    p      = a patch of 6×6 pixels, minus its mean, divided by its standard deviation
    z      = W (p − m)                                   m, W: mean and ZCA whitening of the patches
    f_k(z) = max(0, mean_j ‖z − c_j‖ − ‖z − c_k‖)         c: centroids of k-means ("triangle" code)
    F      = the mean of f over each quadrant of the picture: 4 K numbers
    x      = P (F − μ) / σ                               μ, σ, P: standardisation and PCA of F

| symbol    | name                                  |
|-----------|---------------------------------------|
| m, W      | patch_mean, whitening                 |
| c         | centroids                             |
| μ, 1/σ, P | feature_mean, feature_scale, projection |

All of it is learnt without labels, and repeatably: what is sampled and learnt depends on the pictures and the settings
alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from metapl.types import Array

PICTURES, PATCHES = 3000, 60_000  # what is sampled to learn from
PCA_PICTURES = 6000
CONTRAST = 10.0  # added to a patch's variance, of values up to 255: flat patches stay flat
WHITENING = 0.1  # added to the eigenvalues: directions that hold noise alone are not blown up
BATCH = 256  # pictures encoded at a time

Pictures = NDArray[np.uint8]  # [N, H, W, C]


@dataclass(frozen=True)
class PatchSettings:
    """How patches are learnt."""

    patch: Annotated[int, Ge(2)] = 6
    """Side of a patch in pixels."""
    centroids: Annotated[int, Ge(2)] = 320
    """Centroids of k-means (K)."""
    components: Annotated[int, Ge(1)] = 320
    """Features of a picture: the components of PCA that are kept."""


class Patches(NamedTuple):
    """What was learnt."""

    patch_mean: Array  # [D]
    whitening: Array  # [D, D]
    centroids: Array  # [K, D]
    feature_mean: Array  # [4 K]
    feature_scale: Array  # [4 K]
    projection: Array  # [4 K, components]


def learn(pictures: Pictures, settings: PatchSettings) -> Patches:
    """Learn the encoder from pictures, without labels."""
    draw = np.random.RandomState(0)
    side = patch_side(pictures.shape[1:], settings)
    sample = pictures[np.sort(draw.permutation(len(pictures))[:PICTURES])]
    patches = np.asarray(_in_batches(lambda some: _patches(some, side), sample))
    patches = patches.reshape(-1, patches.shape[-1])
    patches = patches[draw.permutation(len(patches))[:PATCHES]]
    mean, whitening = _whitening(patches)
    centroids = _centroids(((patches - mean) @ whitening).astype(np.float32), settings.centroids)
    raw = Patches(*(jnp.asarray(part) for part in (mean, whitening, centroids)), *[jnp.zeros(())] * 3)
    some = pictures[np.sort(draw.permutation(len(pictures))[:PCA_PICTURES])]
    pooled = np.asarray(_in_batches(lambda batch: pool(raw, batch, side), some))
    return raw._replace(**_projection(pooled, settings.components))


def encode(patches: Patches, pictures: Array) -> Array:
    """Compute the features of pictures [N, H, W, C] of uint8: [N, components]; pure."""
    side = round((patches.patch_mean.shape[0] // pictures.shape[-1]) ** 0.5)
    pooled = pool(patches, pictures, side)
    return ((pooled - patches.feature_mean) * patches.feature_scale) @ patches.projection


def patch_side(shape: tuple[int, ...], settings: PatchSettings) -> int:
    """Side of a patch: the setting, or half of a picture that is smaller than two patches."""
    return min(settings.patch, max(2, min(shape[0], shape[1]) // 2))


def pool(patches: Patches, pictures: Array, side: int) -> Array:
    """F: the triangle code of all patches, averaged over quadrants: [N, 4 K]."""
    z = (_patches(pictures, side) - patches.patch_mean) @ patches.whitening
    c = patches.centroids
    squares = jnp.sum(z**2, -1, keepdims=True) - 2 * z @ c.T + jnp.sum(c**2, -1)
    distances = jnp.sqrt(jnp.maximum(squares, 0))
    code = jnp.maximum(0, jnp.mean(distances, -1, keepdims=True) - distances)  # [N, h, w, K]
    halves = [half for rows in jnp.array_split(code, 2, axis=1) for half in jnp.array_split(rows, 2, axis=2)]
    return jnp.concatenate([jnp.mean(half, (1, 2)) for half in halves], -1)


def _patches(pictures: Array, side: int) -> Array:
    """All patches, of every second place in pictures that are not tiny, normalised: [N, h, w, side² C]."""
    stride = 2 if pictures.shape[1] > 3 * side else 1
    patches = jax.lax.conv_general_dilated_patches(
        pictures.astype(jnp.float32),
        (side, side),
        (stride, stride),
        "VALID",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
    mean, variance = jnp.mean(patches, -1, keepdims=True), jnp.var(patches, -1, keepdims=True)
    return (patches - mean) / jnp.sqrt(variance + CONTRAST)


def _whitening(patches: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """m and W: after them, the patches' covariance is (almost) the identity."""
    mean = patches.mean(0)
    values, vectors = np.linalg.eigh(np.cov(patches.T))
    whitening = (vectors / np.sqrt(values + WHITENING)) @ vectors.T
    return mean, whitening.astype(np.float32)


def _centroids(patches: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    # One thread: the order in which threads add up their shares would change the last bits.
    with threadpool_limits(1):
        means = KMeans(min(count, len(patches)), init="random", n_init=1, max_iter=12, random_state=0).fit(patches)
    return np.asarray(means.cluster_centers_, np.float32)


def _projection(pooled: NDArray[np.float32], components: int) -> dict[str, Array]:
    """μ, 1/σ and P; the projected features have a mean square of 1 over all."""
    mean, deviation = pooled.mean(0), pooled.std(0)
    scale = np.where(deviation > 0, 1 / np.maximum(deviation, 1e-6), 0)
    standard = (pooled - mean) * scale
    values, vectors = np.linalg.eigh(np.cov(standard.T))
    vectors = vectors[:, ::-1][:, :components] / np.sqrt(max(values[::-1][:components].mean(), 1e-12))
    return {
        "feature_mean": jnp.asarray(mean, jnp.float32),
        "feature_scale": jnp.asarray(scale, jnp.float32),
        "projection": jnp.asarray(vectors, jnp.float32),
    }


def _in_batches(function: Callable[[Array], Array], pictures: Pictures) -> NDArray[np.float32]:
    compiled = jax.jit(function)
    return np.concatenate([np.asarray(compiled(pictures[i : i + BATCH])) for i in range(0, len(pictures), BATCH)])
