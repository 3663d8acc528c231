"""AutoAugment (Cubuk et al., 2019): each image goes through one of 25 learned pairs of operations.

A sub-policy is drawn evenly for each image. Its two operations are done one after the other, each with its own
chance and magnitude (`policies.py`). Operations and their ranges are those of `randaugment.py`, where magnitude 10 is
the end of a range, as in the authors' code; a sign is drawn for rotations, shears and translations.

Translations end at 10 of 32 pixels for CIFAR-10 and SVHN, as in the authors' code, and at 150 of 331 for ImageNet, as
in the paper. The authors add a grey square of 16 pixels on CIFAR-10 and of 20 on SVHN: `cutout`.
"""

from dataclasses import dataclass
from functools import cache
from typing import Annotated, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from metapl.augment import ops, policies
from metapl.augment.randaugment import CIFAR_OPS, Draw, RandAugment, layer
from metapl.augment.strong_view import StrongView
from metapl.types import Array

Policy = Literal["cifar10", "svhn", "imagenet"]
TEXTS: dict[Policy, str] = {"cifar10": policies.CIFAR10, "svhn": policies.SVHN, "imagenet": policies.IMAGENET}
TRANSLATE: dict[Policy, float] = {"cifar10": 10 / 32, "svhn": 10 / 32, "imagenet": 150 / 331}


@dataclass(frozen=True)
class AutoAugment(StrongView):
    """One of 25 pairs of operations for each image, which were learnt on a data set."""

    name: ClassVar[str] = "autoaugment"

    policy: Policy = "cifar10"
    """On which data set the policy was learnt: cifar10, svhn or imagenet."""
    cutout: Annotated[int, Ge(0)] = 0
    """Side in pixels of a grey square on the picture; 0: none. The authors: 16 for CIFAR-10, 20 for SVHN."""


class PolicyTable(NamedTuple):
    """A policy's sub-policies, each with two operations: [25, 2] each."""

    op: NDArray[np.int32]  # place in CIFAR_OPS
    chance: NDArray[np.float32]
    magnitude: NDArray[np.float32]


def distort(config: AutoAugment, images: Array, key: Array) -> Array:
    """Put each picture of a batch through a sub-policy of its own, then cutout if the settings ask for it."""
    choice_key, layers_key, cutout_key = jax.random.split(key, 3)
    read = table(config.policy)
    used = tuple(op for op in CIFAR_OPS if CIFAR_OPS.index(op) in read.op)
    ranges = RandAugment(ops=used, translate=TRANSLATE[config.policy])
    chosen = jax.random.randint(choice_key, (len(images),), 0, len(read.op))
    drawn = [jnp.moveaxis(jnp.asarray(part)[chosen], 1, 0) for part in read]  # [2, B] each

    def one_layer(distorted: Array, layer_of: tuple[Array, ...]) -> tuple[Array, None]:
        op, chance, magnitude, key = layer_of
        done_key, sign_key = jax.random.split(key)
        done = jax.random.uniform(done_key, chance.shape) < chance
        sign = jax.random.rademacher(sign_key, chance.shape, jnp.float32)
        draw = Draw(jnp.where(done, op, -1), magnitude, sign, jnp.arange(len(images), dtype=jnp.int32))
        return layer(ranges, distorted, images, draw), None

    # A loop, as in `randaugment.distort`: without it, the compiler computes the first operation many times.
    distorted, _ = jax.lax.scan(one_layer, images, (*drawn, jax.random.split(layers_key, 2)))
    return ops.cutout(distorted, config.cutout, cutout_key) if config.cutout else distorted


@cache
def table(policy: Policy) -> PolicyTable:
    """Read a policy's text."""
    names: list[str] = [*CIFAR_OPS]
    lines = [[operation.split() for operation in line.split(",")] for line in TEXTS[policy].strip().splitlines()]
    return PolicyTable(
        np.array([[names.index(words[0]) for words in line] for line in lines], np.int32),
        np.array([[words[1] for words in line] for line in lines], np.float32),
        np.array([[words[2] if len(words) > 2 else 0 for words in line] for line in lines], np.float32),
    )
