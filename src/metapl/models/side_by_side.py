"""Several networks side by side, each with weights of its own; a classifier gets the features of all.

    F_i    = what the own classifier of network i would be given for (u − m_i) / d_i; with `mirror`, the mean of that
             and of the same for the picture's mirror image
    F      = [F_1, F_2, …]
    logits = W F + b

u is the picture as it comes, with m = 0 and d = 1; or, if networks take different pictures (`takes`), scaled to the
size that network i takes. `metapl fit` puts pretrained networks, patches and a finetuned network together in this way,
under heads (heads.py).

| symbol | name               |
|--------|--------------------|
| m_i    | takes[i].mean      |
| d_i    | takes[i].deviation |
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

import jax.numpy as jnp
from annotated_types import Ge, MinLen
from flax import linen as nn

from metapl.models.efficientnet_lite import EfficientNetLite
from metapl.models.heads import LAST, as_encoder_takes, without_head
from metapl.types import Array, ModelConfig


@dataclass(frozen=True)
class Takes:
    """The pictures that a network takes."""

    size: Annotated[int, Ge(0)] = 0
    """Shorter side in pixels that pictures are scaled to; 0: as they come."""
    colour: bool = True
    """Whether the network takes three channels; a grey picture is then repeated in all of them."""
    mean: tuple[float, ...] = (0.0,)
    """What is subtracted from each channel (m)."""
    deviation: tuple[float, ...] = (1.0,)
    """What each channel is divided by then (d)."""
    mirror: bool = False
    """Average the network's features of the picture and of its mirror image."""


@dataclass(frozen=True)
class SideBySide(ModelConfig):
    """Several networks; their features are put together."""

    name: ClassVar[str] = "side_by_side"

    networks: Annotated[tuple[ModelConfig, ...], MinLen(1)] = (EfficientNetLite(), EfficientNetLite())
    """The settings of each network."""
    takes: tuple[Takes, ...] = ()
    """The pictures that each network takes; none: all take them as they come."""

    def check(self) -> None:
        """Check that it says of every network, or of none, what it takes."""
        if len(self.takes) not in (0, len(self.networks)):
            raise ValueError(f"takes has {len(self.takes)} entries for {len(self.networks)} networks")

    @property
    def largest(self) -> int:
        """The largest size that a picture is scaled to; 0: as they come."""
        return max((own.size for own in self.takes), default=0)


class SideBySideModule(nn.Module):
    """[N, H, W, C] → logits [N, classes]."""

    classes: int
    networks: tuple[nn.Module, ...]
    takes: tuple[Takes, ...]

    @nn.compact
    def __call__(self, x: Array, *, train: bool) -> Array:
        seen = [as_taken(x, own) for own in self.takes] or [x] * len(self.networks)
        mirrored = [own.mirror for own in self.takes] or [False] * len(self.networks)
        networks = [partial(network, train=train) for network in self.networks]
        features = [features_of(*own) for own in zip(networks, seen, mirrored, strict=True)]
        return nn.Dense(self.classes, name=LAST)(jnp.concatenate(features, axis=-1).astype(jnp.float32))


def features_of(network: Callable[[Array], Array], pictures: Array, mirrored: bool) -> Array:
    """F_i, or if `mirrored`, the mean of those of the pictures and of their mirror images: [N, D]."""
    features = without_head(partial(network, pictures))
    if mirrored:
        features = (features + without_head(partial(network, jnp.flip(pictures, 2)))) / 2
    return features


def as_taken(pictures: Array, takes: Takes) -> Array:
    """Bring pictures into the form that a network takes."""
    normalised = (pictures - jnp.asarray(takes.mean, pictures.dtype)) / jnp.asarray(takes.deviation, pictures.dtype)
    return as_encoder_takes(normalised, takes.size, takes.colour)


def name_of(number: int) -> str:
    """The name of a network among the weights."""
    return f"networks_{number}"


def build(config: SideBySide, classes: int, networks: Sequence[nn.Module]) -> nn.Module:
    """Make the linen module of these networks."""
    return SideBySideModule(classes, tuple(networks), config.takes)
