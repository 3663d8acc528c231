"""A network for pictures that compiles fast: batch statistics and dropout, which much could get wrong, are in it."""

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
from flax import linen as nn

from metapl.models.layers import classify, conv
from metapl.models.norm import BatchNorm
from metapl.types import Array, ModelConfig


@dataclass(frozen=True)
class OneConvolution(ModelConfig):
    """Its one setting; who builds it enters it in the table of models first."""

    name: ClassVar[str] = "one_convolution"

    dropout: float = 0.3


class OneConvolutionModule(nn.Module):
    """The network."""

    config: OneConvolution
    classes: int

    @nn.compact
    def __call__(self, x: Array, *, train: bool) -> Array:
        x = BatchNorm(0.9, 1e-3, name="norm")(conv(8, 3, dtype=jnp.float32, name="conv")(x), train=train)
        return classify(nn.leaky_relu(x), self.classes, dropout=self.config.dropout, train=train)
