"""The reduced teacher T' of Appendix E: a small perceptron that corrects what a large, fixed teacher T predicts.

It takes T's probabilities for each example, [N, classes], and computes the logits of corrected probabilities, from
which the student learns. Meta Pseudo Labels then trains T' only, and T need not be in memory.

The paper has five layers with ReLU, of 128 units for CIFAR-10 and 512 for ImageNet. We read "layers" as those with
weights: four hidden layers and the output layer. The paper does not say how weights start; ours start as He et al.'s.
It expects T' to stay close to the identity. With `residual`, T' computes log p + MLP(p), whose last layer starts with
zeros: T' starts as the identity. Without it, the output of a fresh T' is random, and T' has to learn the identity.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import jax.numpy as jnp
from annotated_types import Ge
from flax import linen as nn

from metapl.types import Array, ModelConfig

SMALLEST = 1e-6  # keeps the logarithm of 0 finite; below it, float16 has hardly a digit left


@dataclass(frozen=True)
class ReducedTeacher(ModelConfig):
    """A perceptron from one class distribution to another."""

    name: ClassVar[str] = "reduced_teacher"
    convolutions: ClassVar[bool] = False

    hidden: Annotated[int, Ge(1)] = 128
    """Units of each hidden layer; the paper has 512 for ImageNet."""
    layers: Annotated[int, Ge(1)] = 5
    """Layers with weights, the last one included."""
    residual: bool = False
    """Add the perceptron's output, which starts at 0, to the logarithm of its input."""


class ReducedTeacherModule(nn.Module):
    """Probabilities [N, classes] → logits [N, classes]."""

    config: ReducedTeacher
    classes: int

    @nn.compact
    def __call__(self, x: Array, *, train: bool) -> Array:
        del train  # no dropout, no batch statistics: both modes are the same
        given = x
        for i in range(1, self.config.layers):
            x = nn.relu(nn.Dense(self.config.hidden, kernel_init=nn.initializers.he_normal(), name=f"hidden{i}")(x))
        if not self.config.residual:
            return nn.Dense(self.classes, name="head")(x)
        correction = nn.Dense(self.classes, kernel_init=nn.initializers.zeros, name="head")(x)
        return jnp.log(given + SMALLEST) + correction


def build(config: ReducedTeacher, classes: int) -> nn.Module:
    """Make the linen module from its settings."""
    return ReducedTeacherModule(config, classes)
