"""Features that need no pretraining: codes of patches, with centroids that k-means finds (Coates et al., 2011).

    u      = the picture, shrunk by each of the scales
    p      = a patch of u of 6×6 pixels, minus its mean, divided by its standard deviation
    z      = W (p − m)                                   m, W: mean and ZCA whitening of the patches
    d_k    = ‖z − c_k‖                                   c: centroids of k-means
    f_k(z) = max(0, mean_j d_j − d_k)                    the code `triangles`, or
    f_k(z) = 1 if d_k < mean_j d_j − deviation_j d_j     the code `near`, as Thiry et al. (2021) do with nearest patches
    F      = √ of the mean of f over each cell of a grid: g² K numbers for each scale
    x      = P (F − μ) / σ                               μ, σ, P: standardisation and PCA of F

The root keeps codes that fire often from hiding the others; `power = false` leaves it out.

| symbol    | name                                    |
|-----------|-----------------------------------------|
| m, W      | codes/scaleS/patch_mean, whitening      |
| c         | codes/scaleS/centroids                  |
| μ, 1/σ, P | feature_mean, feature_scale, projection |

`metapl.features.patches` learns the weights from pictures without labels. A dense layer, `head`, makes it a network
like the others. Pictures come as numbers from 0 to 255: `augmentation.mean = [0.0]`, `std = [0.00392157]`.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from annotated_types import Ge, MinLen
from flax import linen as nn
from numpy.typing import NDArray

from metapl.types import Array, ModelConfig

CONTRAST = 10.0  # added to a patch's variance, of values up to 255: flat patches stay flat
SMALLEST = 1e-12  # keeps roots' gradients finite


@dataclass(frozen=True)
class Patches(ModelConfig):
    """Codes of patches, averaged over the cells of a grid."""

    name: ClassVar[str] = "patches"

    side: Annotated[int, Ge(2)] = 6
    """Side of a patch in pixels; half of the picture's, if that is less."""
    scales: Annotated[tuple[int, ...], MinLen(1)] = (1,)
    """Factors by which the picture is shrunk; each has patches of its own."""
    centroids: Annotated[int, Ge(2)] = 320
    """Centroids of each scale (K)."""
    code: Literal["triangles", "near"] = "triangles"
    """f: how much nearer than the mean a centroid is, or only whether it is among the nearest."""
    grid: Annotated[int, Ge(1)] = 2
    """Cells along each side of the picture, over which codes are averaged (g)."""
    overlap: bool = False
    """Let each cell reach over half of the next one."""
    power: bool = True
    """Take the root of the averages."""
    components: Annotated[int, Ge(1)] = 320
    """Features of a picture."""

    def check(self) -> None:
        """Check that no scale enlarges the picture."""
        if min(self.scales) < 1:
            raise ValueError(f"scales takes whole numbers of at least 1, got {self.scales!r}")


class Codes(nn.Module):
    """A shrunk picture [N, H, W, C] → the codes of its patches, averaged over cells: [N, g² K]."""

    config: Patches

    @nn.compact
    def __call__(self, x: Array) -> Array:
        patches = patches_of(x, patch_side(x.shape[1:3], self.config.side))
        size = patches.shape[-1]
        mean = self.param("patch_mean", nn.initializers.zeros, (size,))
        whitening = self.param("whitening", lambda _, shape: jnp.eye(shape[0]), (size, size))
        centroids = self.param("centroids", nn.initializers.normal(1.0), (self.config.centroids, size))
        code = near if self.config.code == "near" else triangles
        return averages(code((patches - mean) @ whitening, centroids), self.config.grid, self.config.overlap)


class Pooled(nn.Module):
    """F: [N, H, W, C] → [N, g² K of all scales]."""

    config: Patches

    @nn.compact
    def __call__(self, x: Array) -> Array:
        codes = [Codes(self.config, name=f"scale{scale}")(shrunk(x, scale)) for scale in self.config.scales]
        return raised(jnp.concatenate(codes, -1), self.config.power)


class PatchesModule(nn.Module):
    """[N, H, W, C] → logits [N, classes]."""

    config: Patches
    classes: int

    @nn.compact
    def __call__(self, x: Array, *, train: bool) -> Array:
        del train  # both modes are the same
        pooled = Pooled(self.config, name="codes")(x)
        size, normal = pooled.shape[-1], nn.initializers.lecun_normal()
        centred = pooled - self.param("feature_mean", nn.initializers.zeros, (size,))
        standard = centred * self.param("feature_scale", nn.initializers.ones, (size,))
        features = standard @ self.param("projection", normal, (size, self.config.components))
        return nn.Dense(self.classes, name="head")(features)


def shrunk(pictures: Array, scale: int) -> Array:
    """Shrink pictures by this factor, smoothly."""
    if scale == 1:
        return pictures
    sides = [max(4, side // scale) for side in pictures.shape[1:3]]
    return jax.image.resize(pictures, (pictures.shape[0], *sides, pictures.shape[-1]), "linear")


def patch_side(sides: tuple[int, ...], wanted: int) -> int:
    """Side of a patch: as wanted, or half of a picture that is smaller than two patches."""
    return min(wanted, max(2, min(sides) // 2))


def patches_of(pictures: Array, side: int) -> Array:
    """All patches, of every second place in pictures that are not small, normalised: [N, h, w, side² C]."""
    stride = 2 if pictures.shape[1] > 6 * side else 1
    patches = jax.lax.conv_general_dilated_patches(
        pictures, (side, side), (stride, stride), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    centred = patches - jnp.mean(patches, -1, keepdims=True)
    return centred / jnp.sqrt(jnp.mean(centred**2, -1, keepdims=True) + CONTRAST)


def triangles(z: Array, centroids: Array) -> Array:
    """f(z): [..., K]."""
    d = _distances(z, centroids)
    return jnp.maximum(0, jnp.mean(d, -1, keepdims=True) - d)


def near(z: Array, centroids: Array) -> Array:
    """f(z), 0 or 1: [..., K]."""
    d = _distances(z, centroids)
    return (d < jnp.mean(d, -1, keepdims=True) - jnp.std(d, -1, keepdims=True)).astype(z.dtype)


def _distances(z: Array, centroids: Array) -> Array:
    """d: [..., K]."""
    squares = jnp.sum(z**2, -1, keepdims=True) - 2 * z @ centroids.T + jnp.sum(centroids**2, -1)
    return jnp.sqrt(jnp.maximum(squares, SMALLEST))


def averages(codes: Array, grid: int, overlap: bool = False) -> Array:
    """Average codes [N, h, w, K] over the cells of a grid: [N, g² K]."""
    count, h, w, codes_of_patch = codes.shape
    cells = np.einsum("ah,bw->abhw", _parts(h, grid, overlap), _parts(w, grid, overlap)).reshape(-1, h * w)
    means = jnp.einsum("cp,npk->nck", jnp.asarray(cells, codes.dtype), codes.reshape(count, h * w, codes_of_patch))
    return means.reshape(count, -1)


def _parts(side: int, grid: int, overlap: bool) -> NDArray[np.float64]:
    """Weights of the places of each part, along one side: [parts, places].

    The parts differ by one place at most, and are not more than there are places. Parts that overlap are pairs of
    neighbours of one part more.
    """
    reach = 2 if overlap else 1
    parts = min(grid + reach - 1, side)
    cuts = [round(i * side / parts) for i in range(parts + 1)]
    ends = zip(cuts[: -min(reach, parts)], cuts[min(reach, parts) :], strict=True)
    places = np.arange(side)
    inside = np.stack([(start <= places) & (places < end) for start, end in ends])
    return np.asarray(inside / inside.sum(-1, keepdims=True))


def raised(pooled: Array, power: bool) -> Array:
    """√F, if wanted."""
    return jnp.sqrt(jnp.maximum(pooled, SMALLEST)) if power else pooled


def build(config: Patches, classes: int) -> nn.Module:
    """Make the linen module from its settings."""
    return PatchesModule(config, classes)
