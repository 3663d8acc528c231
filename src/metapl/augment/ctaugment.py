"""CTAugment (Berthelot et al., 2020, Section 3.2.2): learn while training how strongly pictures can be distorted.

    ω        = 1 − ½ ‖ f(x̂_l; θ) − onehot(y_l) ‖₁      x̂_l: a labelled picture, distorted at even levels
    m_{o,i}  ← ρ^n m_{o,i} + (1 − ρ^n) mean ω           over the n of them whose operation o had its level in bin i
    p_o      = (m_o + 1 − ρ) / max_i (m_{o,i} + 1 − ρ),   p_{o,i} = 0 if below the threshold
    level    = (i + u) / bins,   i ~ p_o,   u ~ Uniform(0, 1)

A picture goes through `layers` operations, drawn evenly. Each has a level from 0 to 1, and each operation's levels have
`bins` bins. m starts at 1, so all levels are used at first. A bin is left out when the network no longer recognises
labelled pictures that are distorted so.

| operation                              | at level v                                    | as it is at |
|----------------------------------------|-----------------------------------------------|-------------|
| autocontrast, equalize, invert, smooth | v of the changed picture, 1 − v of its own    | 0           |
| brightness, color, contrast, sharpness | factor 0.1 + 1.9 v                            | 0.47        |
| posterize                              | 1 + ⌊8 v⌋ bits kept                           | 1           |
| solarize                               | levels from 256 v up are inverted             | 1           |
| rotate                                 | ± 45 degrees: 90 v − 45                       | 0.5         |
| shear_x, shear_y                       | ± 0.3: 0.6 v − 0.3                            | 0.5         |
| translate_x, translate_y               | ± 0.3 of the side                             | 0.5         |
| rescale                                | 0.25 v of each side cut off, then enlarged    | 0           |
| cutout                                 | a grey square of 1 + ⌊v / 2⌋ of the side      | 0           |
| identity                               | nothing                                       | all         |

Differences from the authors' code: several ratings of one bin count at once, not one after another; a level is drawn
from the bins, as in the paper, not from pairs of neighbours; translations are parts of the side, as in the paper, not
of a pixel; there is no blur; rescale takes the nearest pixel, not one of six filters; posterize has as many bins as the
others, not 8.

| symbol  | name                        |
|---------|-----------------------------|
| m       | the memory [OPS, bins]      |
| ρ       | config.decay                |
| ω       | closeness [B]               |
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt, Lt

from metapl.augment import ops
from metapl.augment.strong_view import StrongView
from metapl.types import Array

OPS = (
    "autocontrast",
    "equalize",
    "invert",
    "posterize",
    "solarize",
    "brightness",
    "color",
    "contrast",
    "sharpness",
    "smooth",
    "rotate",
    "shear_x",
    "shear_y",
    "translate_x",
    "translate_y",
    "rescale",
    "cutout",
    "identity",
)


@dataclass(frozen=True)
class CTAugment(StrongView):
    """Operations at levels at which the network still finds the right class."""

    name: ClassVar[str] = "ctaugment"

    layers: Annotated[int, Ge(1)] = 2
    """Operations that each picture goes through."""
    threshold: Annotated[float, Ge(0), Lt(1)] = 0.8
    """Leave out levels whose rating is below this part of the operation's best one."""
    decay: Annotated[float, Gt(0), Lt(1)] = 0.99
    """ρ: share of a rating that remains after each labelled picture."""
    bins: Annotated[int, Ge(2)] = 17
    """Bins of each operation's levels; each has a rating."""


class DrawnOperations(NamedTuple):
    """What happens to each picture of a batch: [layers, B] each."""

    op: Array  # int32: place in OPS
    level: Array  # float, from 0 to 1


def start(config: CTAugment) -> Array:
    """m: every level is as good as every other: [OPS, bins]."""
    return jnp.ones((len(OPS), config.bins), jnp.float32)


def chances(config: CTAugment, ratings: Array) -> Array:
    """p: 0 for levels that are left out: [OPS, bins]."""
    raised = ratings + (1 - config.decay)
    relative = raised / jnp.max(raised, axis=-1, keepdims=True)
    return jnp.where(relative < config.threshold, 0.0, relative)


def draw(config: CTAugment, ratings: Array, batch: int, key: Array) -> DrawnOperations:
    """Draw operations evenly, and levels from bins that are not left out."""
    op_key, bin_key, level_key = jax.random.split(key, 3)
    shape = (config.layers, batch)
    op = jax.random.randint(op_key, shape, 0, len(OPS))
    place = jax.random.categorical(bin_key, jnp.log(chances(config, ratings))[op])
    return DrawnOperations(op, (place + jax.random.uniform(level_key, shape)) / config.bins)


def rated_view(config: CTAugment, images: Array, key: Array) -> tuple[Array, DrawnOperations]:
    """Distort pictures at even levels, and return what was drawn."""
    draw_key, key = jax.random.split(key)
    drawn = draw(config, start(config), len(images), draw_key)
    return apply(images, drawn, key), drawn


def distort(config: CTAugment, ratings: Array, images: Array, key: Array) -> Array:
    """Make the strong view of a batch of pictures, uint8, with the levels that the ratings allow."""
    draw_key, key = jax.random.split(key)
    return apply(images, draw(config, ratings, len(images), draw_key), key)


def learn(config: CTAugment, ratings: Array, drawn: DrawnOperations, closeness: Array) -> Array:
    """m ← ρ^n m + (1 − ρ^n) mean ω, for the n ratings of each bin."""
    place = jnp.minimum((drawn.level * config.bins).astype(jnp.int32), config.bins - 1)
    cell = (drawn.op, place)
    count = jnp.zeros_like(ratings).at[cell].add(1.0)
    total = jnp.zeros_like(ratings).at[cell].add(jnp.broadcast_to(closeness, drawn.level.shape).astype(ratings.dtype))
    kept = config.decay**count
    return kept * ratings + (1 - kept) * total / jnp.maximum(count, 1)


def apply(images: Array, drawn: DrawnOperations, key: Array) -> Array:
    """Do the drawn operations, one layer after another."""

    def one_layer(distorted: Array, layer_of: tuple[Array, Array, Array]) -> tuple[Array, None]:
        return layer(distorted, *layer_of), None

    # A loop, as in `randaugment.distort`: without it, the compiler computes the first operation many times.
    distorted, _ = jax.lax.scan(one_layer, images, (*drawn, jax.random.split(key, len(drawn.op))))
    return distorted


def layer(images: Array, op: Array, level: Array, key: Array) -> Array:
    """Do one operation for each picture: one pass over the batch for each family."""
    looked_up = ops.lookup(images, _tables(images, op, level))
    blended = ops.blend(_degenerate(images, op, looked_up), images, _own_share(op, level))
    warped = ops.warp(images, _matrices(images, op, level))
    size = 1 + jnp.floor(level * min(images.shape[1:3]) / 2).astype(jnp.int32)
    cut = ops.cutout(images, size[:, None], key)
    is_warp, is_cutout, stays = (_is(op, *names)[:, None, None, None] for names in (_WARPS, ("cutout",), ("identity",)))
    changed = jnp.where(is_warp, warped, jnp.where(is_cutout, cut, blended))
    return jnp.where(stays, images, changed)


_PARTLY = ("autocontrast", "equalize", "invert", "smooth")
_ENHANCEMENTS = ("brightness", "color", "contrast", "sharpness")
_WARPS = ("rotate", "shear_x", "shear_y", "translate_x", "translate_y", "rescale")


def _tables(images: Array, op: Array, level: Array) -> Array:
    counts = ops.histograms(images)
    return _choose(
        op,
        {
            "autocontrast": ops.autocontrast(counts),
            "equalize": ops.equalize(counts),
            "invert": ops.invert(),
            "posterize": ops.posterize(1 + jnp.minimum(jnp.floor(8 * level), 7)),
            "solarize": ops.solarize(jnp.floor(256 * level)),
        },
        ops.identity_table(),
    )


def _degenerate(images: Array, op: Array, looked_up: Array) -> Array:
    smooth = ops.smooth(images)
    family = {
        "brightness": ops.black(),
        "color": ops.grey(images),
        "contrast": ops.mean_grey(images),
        "sharpness": smooth,
        "smooth": smooth,
    }
    return _choose(op, family, looked_up.astype(jnp.int32))


def _own_share(op: Array, level: Array) -> Array:
    """The picture's own share in a blend: 0 for lookups that are done whole."""
    partly = jnp.where(_is(op, *_PARTLY), 1 - level, 0.0)
    return jnp.where(_is(op, *_ENHANCEMENTS), 0.1 + 1.9 * level, partly)


def _matrices(images: Array, op: Array, level: Array) -> Array:
    height, width = images.shape[1:3]
    side, nothing, cut = 2 * level - 1, jnp.zeros_like(level), 0.25 * level
    inner = 1 - 2 * cut
    family = {
        "rotate": ops.rotate(45 * side, height, width),
        "shear_x": ops.shear_x(0.3 * side),
        "shear_y": ops.shear_y(0.3 * side),
        "translate_x": ops.translate(0.3 * width * side, nothing),
        "translate_y": ops.translate(nothing, 0.3 * height * side),
        "rescale": ops.matrix(inner, nothing, cut * width, nothing, inner, cut * height),
    }
    return _choose(op, family, ops.translate(nothing, nothing))


def _choose(op: Array, family: dict[str, Array], otherwise: Array) -> Array:
    """Take for each picture what its operation needs."""
    for name, made in family.items():
        otherwise = jnp.where(_is(op, name).reshape(-1, *[1] * (made.ndim - 1)), made, otherwise)
    return otherwise


def _is(op: Array, *names: str) -> Array:
    return jnp.isin(op, jnp.asarray([OPS.index(name) for name in names], jnp.int32))
