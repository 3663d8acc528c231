"""The reduced teacher T' of Appendix E: a small perceptron that corrects what a large, fixed teacher T predicts.

It takes T's distribution for an example, [N, classes] of probabilities, and answers with the logits of a corrected
distribution for the student to learn. Meta Pseudo Labels then trains T' only, and T need not be in memory.

The paper has five layers with ReLU, of 128 units for CIFAR-10 and 512 for ImageNet. We read "layers" as those with
weights: four hidden ones and the one that answers. Of the first weights it says nothing; ours are He's. It expects T'
to stay close to the identity: with `residual`, T' answers log p + MLP(p) and starts with a last layer of zeros, as
exactly that; without, a fresh T' answers at random, and has to learn the identity first.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import jax.numpy as jnp
from annotated_types import Ge
from flax import linen as nn

from metapl.types import Array, ModelConfig

SMALLEST = 1e-6  # below it float16 has hardly a digit left; the logarithm of nothing would not be finite


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
    """Add the perceptron's answer to the logarithm of what it is given, starting from nothing to add."""


class ReducedTeacherModule(nn.Module):
    """Probabilities [N, classes] → logits [N, classes]."""

    config: ReducedTeacher
    classes: int

    @nn.compact
    def __call__(self, x: Array, *, train: bool) -> Array:
        del train  # no dropout, no batch statistics: both modes are one
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
