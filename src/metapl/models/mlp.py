"""A perceptron. Its defaults are the TwoMoon network of Section 3.1: two hidden layers of 8 sigmoid units, weights
uniform in ±0.1. Without hidden layers, it is a linear classifier."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import jax
import jax.numpy as jnp
from annotated_types import Gt
from flax import linen as nn

from metapl.types import Array, ModelConfig

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {"sigmoid": nn.sigmoid, "relu": nn.relu}


@dataclass(frozen=True)
class MLP(ModelConfig):
    """A multi-layer perceptron on flat inputs."""

    name: ClassVar[str] = "mlp"
    convolutions: ClassVar[bool] = False

    hidden: tuple[int, ...] = (8, 8)
    """Units of each hidden layer; none: a linear classifier."""
    activation: Literal["sigmoid", "relu"] = "sigmoid"
    """Activation function of the hidden layers."""
    init_range: Annotated[float, Gt(0)] = 0.1
    """Weights and biases start uniform between −init_range and init_range."""

    def check(self) -> None:
        """Check that every layer has units."""
        if min(self.hidden, default=1) < 1:
            raise ValueError(f"hidden takes whole numbers of at least 1, got {self.hidden!r}")


class Perceptron(nn.Module):
    """[N, ...] → logits [N, classes]."""

    config: MLP
    classes: int

    @nn.compact
    def __call__(self, x: Array, *, train: bool) -> Array:
        del train  # no dropout, no batch statistics: both modes are the same

        def layer(units: int) -> nn.Dense:
            return nn.Dense(units, kernel_init=uniform, bias_init=uniform)

        def uniform(key: Array, shape: tuple[int, ...], dtype: jnp.dtype) -> Array:
            reach = self.config.init_range
            return jax.random.uniform(key, shape, dtype, -reach, reach)

        x = x.reshape(x.shape[0], -1)
        for units in self.config.hidden:
            x = ACTIVATIONS[self.config.activation](layer(units)(x))
        return layer(self.classes)(x)


def build(config: MLP, classes: int) -> nn.Module:
    """Make the linen module from its settings."""
    return Perceptron(config, classes)
