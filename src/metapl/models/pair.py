"""Two networks of one kind side by side, each with weights of its own; a classifier gets the features of both.

    F      = [F_1, F_2]                 F_i: what the own classifier of network i would be given
    logits = W F + b

`metapl fit` puts a pretrained network and its finetuned copy together in this way, under heads (heads.py).
"""

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
from flax import linen as nn

from metapl.models.efficientnet_lite import EfficientNetLite
from metapl.models.heads import LAST, without_head
from metapl.types import Array, ModelConfig

FIRST, SECOND = "first", "second"  # the networks' names among the weights


@dataclass(frozen=True)
class Pair(ModelConfig):
    """Two networks of one kind; their features are put together."""

    name: ClassVar[str] = "pair"

    network: ModelConfig = EfficientNetLite()
    """The settings of both networks."""


class PairModule(nn.Module):
    """[N, H, W, C] → logits [N, classes]."""

    classes: int
    first: nn.Module
    second: nn.Module

    @nn.compact
    def __call__(self, x: Array, *, train: bool) -> Array:
        both = [without_head(lambda: self.first(x, train=train)), without_head(lambda: self.second(x, train=train))]
        return nn.Dense(self.classes, name=LAST)(jnp.concatenate(both, axis=-1).astype(jnp.float32))


def build(classes: int, first: nn.Module, second: nn.Module) -> nn.Module:
    """Make the linen module of two networks."""
    return PairModule(classes, first, second)
