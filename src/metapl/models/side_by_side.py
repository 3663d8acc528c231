"""Several networks side by side, each with weights of its own; a classifier gets the features of all.

    F      = [F_1, F_2, …]              F_i: what the own classifier of network i would be given
    logits = W F + b

`metapl fit` puts pretrained networks and a finetuned one together in this way, under heads (heads.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

import jax.numpy as jnp
from annotated_types import MinLen
from flax import linen as nn

from metapl.models.efficientnet_lite import EfficientNetLite
from metapl.models.heads import LAST, without_head
from metapl.types import Array, ModelConfig


@dataclass(frozen=True)
class SideBySide(ModelConfig):
    """Several networks; their features are put together."""

    name: ClassVar[str] = "side_by_side"

    networks: Annotated[tuple[ModelConfig, ...], MinLen(1)] = (EfficientNetLite(), EfficientNetLite())
    """The settings of each network."""


class SideBySideModule(nn.Module):
    """[N, H, W, C] → logits [N, classes]."""

    classes: int
    networks: tuple[nn.Module, ...]

    @nn.compact
    def __call__(self, x: Array, *, train: bool) -> Array:
        features = [without_head(partial(network, x, train=train)) for network in self.networks]
        return nn.Dense(self.classes, name=LAST)(jnp.concatenate(features, axis=-1).astype(jnp.float32))


def name_of(number: int) -> str:
    """The name of a network among the weights."""
    return f"networks_{number}"


def build(classes: int, networks: Sequence[nn.Module]) -> nn.Module:
    """Make the linen module of these networks."""
    return SideBySideModule(classes, tuple(networks))
