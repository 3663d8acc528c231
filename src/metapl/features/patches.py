"""Learn the codes of patches (models/patches.py) from pictures, without labels.

All of it is repeatable: what is sampled and learnt depends on the pictures and the settings alone.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from metapl.features.frozen import Frozen
from metapl.models.assemble import Encoder
from metapl.models.heads import Heads, as_encoder_takes
from metapl.models.patches import Patches, Pooled, patch_side, patches_of, shrunk
from metapl.schema import ConfigError
from metapl.types import Array, PyTree, Weights

PICTURES, PATCHES = 3000, 60_000  # what is sampled to learn from
LARGE_PICTURES = 1500  # of pictures that are shrunk: reading more takes much time and memory
PCA_PICTURES, FEWER = 6000, 2500  # fewer if a picture has more codes than that: a matrix of so many rows is analysed
WHITENING = 0.1  # added to the eigenvalues: directions that hold noise alone are not blown up
SMALLEST = 2  # pixels, the side of the smallest patch
BATCH = 64  # pictures at a time
# Pictures encoded at a time: distances to 800 centroids are 3 MB a picture, and larger batches leave the cache.
# Pictures of 64×64 pixels, processor time for each: 11 ms one by one, 10 ms by twos, 15 ms by eights, 16 ms by 32.
AT_ONCE = 2

Pictures = NDArray[np.uint8] | NDArray[np.float32]  # [N, H, W, C], from 0 to 255
Values = NDArray[np.float32]


def learn(pictures: Pictures, settings: Patches, shrunk_to: int = 0) -> PyTree:
    """Learn the weights of the network `patches`, without its head, from pictures as they come or shrunk ones."""
    if shrunk_to and min(pictures.shape[1:3]) > shrunk_to:
        pictures = _in_batches(lambda batch: as_encoder_takes(batch, shrunk_to, colour=False), pictures, BATCH)
    if min(pictures.shape[1:3]) < SMALLEST:
        sides = "×".join(map(str, pictures.shape[1:3]))
        raise ConfigError(f"patches need pictures of at least {SMALLEST}×{SMALLEST} pixels, and these have {sides}")
    draw = np.random.RandomState(0)
    sample = pictures[np.sort(draw.permutation(len(pictures))[:PICTURES])]
    codes: dict[str, Any] = {f"scale{scale}": _codes(sample, settings, scale, draw) for scale in settings.scales}
    width = settings.centroids * settings.grid**2 * len(settings.scales)
    count = PCA_PICTURES if width <= PCA_PICTURES else FEWER
    some = pictures[np.sort(draw.permutation(len(pictures))[:count])]
    pooled = _in_batches(lambda batch: jnp.asarray(Pooled(settings).apply({"params": codes}, batch)), some, AT_ONCE)
    return {"codes": codes} | _projection(pooled, settings.components)


def frozen(params: PyTree, settings: Patches, size: int = 0) -> Frozen:
    """Make the encoder of what was learnt; it scales pictures to a shorter side of `size` pixels, if that is given."""
    width = params["projection"].shape[-1]
    scale = {"mean": jnp.zeros(width), "factor": jnp.ones(width)}
    weights = Weights({"encoder": jax.tree.map(jnp.asarray, params), "scale": scale}, {})
    return Frozen(Encoder(Heads(settings, size, colour=False), weights, (0.0,), (1 / 255,)), AT_ONCE)


def _codes(sample: Pictures, settings: Patches, scale: int, draw: np.random.RandomState) -> dict[str, Values]:
    """m, W and c of one scale."""

    def all_patches(batch: Array) -> Array:
        small = shrunk(batch, scale)
        return patches_of(small, patch_side(small.shape[1:3], settings.side))

    patches = _in_batches(all_patches, sample, BATCH, max(1, -(-PATCHES // len(sample))), draw)
    patches = patches[draw.permutation(len(patches))[:PATCHES]]
    mean, whitening = _whitening(patches)
    centroids = _centroids(((patches - mean) @ whitening).astype(np.float32), settings.centroids)
    return {"patch_mean": mean, "whitening": whitening, "centroids": centroids}


def _whitening(patches: Values) -> tuple[Values, Values]:
    """m and W: after them, the patches' covariance is (almost) the identity."""
    mean = patches.mean(0)
    values, vectors = np.linalg.eigh(np.cov(patches.T))
    whitening = (vectors / np.sqrt(values + WHITENING)) @ vectors.T
    return mean, whitening.astype(np.float32)


def _centroids(patches: Values, count: int) -> Values:
    # One thread: the order in which threads add up their shares would change the last bits.
    with threadpool_limits(1):
        means = KMeans(min(count, len(patches)), init="random", n_init=1, max_iter=12, random_state=0).fit(patches)
    found = np.asarray(means.cluster_centers_, np.float32)
    return np.resize(found, (count, found.shape[1]))  # repeated if there are fewer patches than that


def _projection(pooled: Values, components: int) -> dict[str, Values]:
    """μ, 1/σ and P; the projected features have a mean square of 1 over all, and are at most as many as the codes."""
    mean, deviation = pooled.mean(0), pooled.std(0)
    scale = np.where(deviation > 0, 1 / np.maximum(deviation, 1e-6), 0).astype(np.float32)
    standard = (pooled - mean) * scale
    vectors = _leading(standard, components)
    vectors /= np.sqrt(max(np.mean((standard @ vectors) ** 2), 1e-12))
    return {"feature_mean": mean, "feature_scale": scale, "projection": vectors.astype(np.float32)}


def _leading(standard: Values, components: int) -> Values:
    """The leading eigenvectors of the covariance [D, components]; by the rows' products if there are fewer rows."""
    rows, size = standard.shape
    if size <= rows:
        vectors = np.linalg.eigh(standard.T @ standard)[1][:, ::-1][:, :components]
    else:
        values, left = np.linalg.eigh(standard @ standard.T)
        left, values = left[:, ::-1][:, :components], values[::-1][:components]
        vectors = standard.T @ (left / np.sqrt(np.maximum(values, 1e-6)))
    missing = components - vectors.shape[1]  # too few pictures or codes: the others are zero
    return np.pad(vectors, ((0, 0), (0, missing)))


def _in_batches(
    function: Callable[[Array], Array],
    pictures: Pictures,
    size: int,
    each: int = 0,
    draw: np.random.RandomState | None = None,
) -> Values:
    """Apply a function to so many pictures at a time; keep all rows, or `each` random ones of every picture."""
    compiled = jax.jit(function)
    made = []
    for start in range(0, len(pictures), size):
        batch = pictures[start : start + size].astype(np.float32)
        filled = np.concatenate([batch, np.repeat(batch[-1:], size - len(batch), 0)])
        values = np.asarray(compiled(filled))[: len(batch)]
        if draw is not None:
            values = values.reshape(-1, values.shape[-1])
            values = values[draw.permutation(len(values))[: each * len(batch)]]
        made.append(values)
    return np.concatenate(made)
