"""RandAugment: each image goes through N operations, drawn evenly from a set, all of the same magnitude M.

Magnitude 10 is the end of AutoAugment's range, as in the TensorFlow code of RandAugment and of the paper; larger
ones continue in the same proportion, except for operations whose range has an end. With s = M / 10:

| operation                                | value                                  | M = 0 | M = 10  | M = 16    |
|------------------------------------------|----------------------------------------|-------|---------|-----------|
| auto_contrast, equalize, invert          | none                                   |       |         |           |
| posterize                                | bits kept: 8 − ⌊4 s⌋, at least 4       | 8     | 4       | 4         |
| solarize                                 | levels from 256 − ⌊256 s⌋ up           | 256   | 0       | 0         |
| brightness, color, contrast, sharpness   | factor 0.1 + 1.8 s                     | 0.1   | 1.9     | 2.98      |
| sample_pairing                           | the partner's part: 0.4 s, at most 0.4 | 0     | 0.4     | 0.4       |
| rotate                                   | ± 30 s degrees                         | 0     | 30      | 48        |
| shear_x, shear_y                         | ± 0.3 s                                | 0     | 0.3     | 0.48      |
| translate_x, translate_y                 | ± `translate` s of the side            | 0     | 4 of 32 | 6.4 of 32 |

The sign is drawn for each image. Where the codes of others disagree:

- They keep ⌊4 s⌋ bits and solarize from ⌊256 s⌋ on, so that these two become *weaker* with M (in the paper's code the
  threshold of M = 16, 409, does not even fit its uint8). Here both become stronger.
- The paper's code blends contrast with the number of pixels over 256 instead of the mean; here it is the mean, as in
  Pillow and AutoAugment.
- The paper's code lacks Sample Pairing, which its Table 5 lists, and draws Cutout, which Table 5 does not list.
- The paper's code does an operation with a probability that it draws from 0.2 to 0.8 for each image; `probability` is
  their mean. RandAugment's own paper does all of them.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt, Le, MinLen

from metapl.augment import ops
from metapl.augment.strong_view import StrongView
from metapl.types import Array

Op = Literal[
    "auto_contrast",
    "brightness",
    "color",
    "contrast",
    "equalize",
    "invert",
    "sharpness",
    "posterize",
    "sample_pairing",
    "solarize",
    "rotate",
    "shear_x",
    "shear_y",
    "translate_x",
    "translate_y",
]
CIFAR_OPS: tuple[Op, ...] = get_args(Op)
"""The paper's Table 5 for CIFAR-10 and ImageNet."""
SVHN_OPS: tuple[Op, ...] = tuple(op for op in CIFAR_OPS if op not in ("sample_pairing", "rotate", "translate_x"))
"""The paper's Table 5 for SVHN: rotated, a 6 looks like a 9, and half of an 8 looks like a 3."""


@dataclass(frozen=True)
class RandAugment(StrongView):
    """The same number of random operations for each image, all of the same strength."""

    name: ClassVar[str] = "randaugment"

    layers: Annotated[int, Ge(0)] = 2
    """Operations that each image goes through (N)."""
    magnitude: Annotated[float, Ge(0), Le(30)] = 16.0
    """Their strength (M): 10 is the end of AutoAugment's ranges; larger values go beyond them."""
    probability: Annotated[float, Gt(0), Le(1)] = 0.5
    """Chance that an operation is done, not skipped. RandAugment's own paper: 1."""
    translate: Annotated[float, Ge(0), Le(1)] = 0.125
    """Translation at magnitude 10, as a part of the side. The paper's code: 1/8 for CIFAR, 100/224 for ImageNet."""
    ops: Annotated[tuple[Op, ...], MinLen(1)] = CIFAR_OPS
    """The operations to draw from. All are those of the paper for CIFAR-10 and ImageNet; for SVHN, leave out
    sample_pairing, rotate and translate_x."""
    partners: Literal["any", "next"] = "any"
    """Which image of the batch sample_pairing mixes in. "next" is for many devices, and equivalent if batches are drawn
    at random; with "any", each device has to gather the pictures of all devices."""
    cutout: Annotated[int, Ge(0)] = 0
    """Side in pixels of a grey square on the picture; 0: none. The paper's code: 16 for CIFAR."""


class Draw(NamedTuple):
    """What happens to each image of a batch in one layer; each is [B]."""

    op: Array  # int32: place in CIFAR_OPS; −1 does nothing
    magnitude: Array  # float
    sign: Array  # float: −1 or 1
    partner: Array  # int32: the image of the batch that sample_pairing mixes in


def distort(config: RandAugment, images: Array, key: Array) -> Array:
    """Apply `layers` random operations to each picture of a batch, then cutout if the settings ask for it."""
    layers_key, cutout_key = jax.random.split(key)

    def one_layer(distorted: Array, key: Array) -> tuple[Array, None]:
        return layer(config, distorted, images, draw(config, len(images), key)), None

    # A loop makes the compiler finish a layer before the next one reads it. Without the loop, it fuses the layers and
    # computes the same pixels many times: six times slower on the CPU, where it ignores barriers.
    distorted, _ = jax.lax.scan(one_layer, images, jax.random.split(layers_key, config.layers))
    return ops.cutout(distorted, config.cutout, cutout_key) if config.cutout else distorted


def draw(config: RandAugment, batch: int, key: Array) -> Draw:
    """Choose the operations of one layer."""
    op_key, skip_key, sign_key, partner_key = jax.random.split(key, 4)
    choices = jnp.asarray([_place(op) for op in config.ops], jnp.int32)
    op = jax.random.choice(op_key, choices, (batch,))
    op = jnp.where(jax.random.bernoulli(skip_key, config.probability, (batch,)), op, -1)
    sign = jax.random.rademacher(sign_key, (batch,), jnp.float32)
    # The partner is another image; only an image that is alone in its batch is its own partner.
    distance = jax.random.randint(partner_key, (batch,), 1, max(batch, 2))
    partner = (jnp.arange(batch, dtype=jnp.int32) + distance) % batch
    return Draw(op, jnp.full((batch,), config.magnitude, jnp.float32), sign, partner)


def layer(config: RandAugment, images: Array, originals: Array, draw: Draw) -> Array:
    """Do the drawn operations: one pass over the batch for each family; each image keeps its own family's result."""
    strength = draw.magnitude / 10
    looked_up = ops.lookup(images, _tables(config, images, draw.op, strength))
    blended = ops.blend(_degenerate(config, images, originals, draw), images, _factor(draw.op, strength))
    warped = ops.warp(images, _matrices(config, images, draw.op, strength * draw.sign))
    is_lookup, is_blend = (_is_one_of(draw.op, family)[:, None, None, None] for family in (_LOOKUPS, _BLENDS))
    return jnp.where(is_lookup, looked_up, jnp.where(is_blend, blended, warped))


_LOOKUPS: tuple[Op, ...] = ("auto_contrast", "equalize", "invert", "posterize", "solarize")
_ENHANCEMENTS: tuple[Op, ...] = ("brightness", "color", "contrast", "sharpness")
_BLENDS: tuple[Op, ...] = (*_ENHANCEMENTS, "sample_pairing")


def _tables(config: RandAugment, images: Array, op: Array, strength: Array) -> Array:
    counts = ops.histograms(images)
    family: dict[Op, Array] = {
        "auto_contrast": ops.autocontrast(counts),
        "equalize": ops.equalize(counts),
        "invert": ops.invert(),
        "posterize": ops.posterize(jnp.maximum(8 - jnp.floor(4 * strength), 4)),
        "solarize": ops.solarize(256 - jnp.floor(256 * strength)),
    }
    return _choose(config, op, family, ops.identity_table())


def _degenerate(config: RandAugment, images: Array, originals: Array, draw: Draw) -> Array:
    family: dict[Op, Array] = {
        "color": ops.grey(images),
        "contrast": ops.mean_grey(images),
        "sharpness": ops.smooth(images),
        "sample_pairing": _partners(config, originals, draw).astype(jnp.int32),
    }
    return _choose(config, draw.op, family, ops.black())


def _partners(config: RandAugment, originals: Array, draw: Draw) -> Array:
    """The images to mix in. A roll moves one image between devices; with an index, the compiler must gather all."""
    return jnp.roll(originals, -1, axis=0) if config.partners == "next" else originals[draw.partner]


def _factor(op: Array, strength: Array) -> Array:
    """The image's own share in a blend."""
    return jnp.where(_is_one_of(op, _ENHANCEMENTS), 0.1 + 1.8 * strength, 1 - jnp.minimum(0.4 * strength, 0.4))


def _matrices(config: RandAugment, images: Array, op: Array, strength: Array) -> Array:
    height, width = images.shape[1:3]
    nothing, shift = jnp.zeros_like(strength), config.translate * strength
    family: dict[Op, Array] = {
        "rotate": ops.rotate(30 * strength, height, width),
        "shear_x": ops.shear_x(0.3 * strength),
        "shear_y": ops.shear_y(0.3 * strength),
        "translate_x": ops.translate(width * shift, nothing),
        "translate_y": ops.translate(nothing, height * shift),
    }
    return _choose(config, op, family, ops.translate(nothing, nothing))


def _choose(config: RandAugment, op: Array, family: dict[Op, Array], otherwise: Array) -> Array:
    """Take for each image what its operation needs; the compiler removes what no operation of the set needs."""
    for name, made in family.items():
        if name in config.ops:
            here = (op == _place(name)).reshape(-1, *[1] * (made.ndim - 1))
            otherwise = jnp.where(here, made, otherwise)
    return otherwise


def _is_one_of(op: Array, names: tuple[Op, ...]) -> Array:
    return jnp.isin(op, jnp.asarray([_place(name) for name in names], jnp.int32))


def _place(name: Op) -> int:
    return CIFAR_OPS.index(name)
