"""The reduced teacher T' of Appendix E: a small perceptron that corrects what a large, fixed teacher T predicts.

It takes T's distribution for an example, [N, classes] of probabilities, and answers with the logits of a corrected
distribution for the student to learn. Meta Pseudo Labels then trains T' only, and T need not be in memory.

The paper has five layers with ReLU, of 128 units for CIFAR-10 and 512 for ImageNet. We read "layers" as those with
weights: four hidden ones and the one that answers. Of the first weights it says nothing; ours are He's.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge
from flax import linen as nn

from metapl.types import Array, ModelConfig


@dataclass(frozen=True)
class ReducedTeacher(ModelConfig):
    """A perceptron from one class distribution to another."""

    name: ClassVar[str] = "reduced_teacher"

    hidden: Annotated[int, Ge(1)] = 128
    """Units of each hidden layer; the paper has 512 for ImageNet."""
    layers: Annotated[int, Ge(1)] = 5
    """Layers with weights, the last one included."""


class ReducedTeacherModule(nn.Module):
    """Probabilities [N, classes] → logits [N, classes]."""

    config: ReducedTeacher
    classes: int

    @nn.compact
    def __call__(self, x: Array, *, train: bool) -> Array:
        del train  # no dropout, no batch statistics: both modes are one
        for i in range(1, self.config.layers):
            x = nn.relu(nn.Dense(self.config.hidden, kernel_init=nn.initializers.he_normal(), name=f"hidden{i}")(x))
        return nn.Dense(self.classes, name="head")(x)


def build(config: ReducedTeacher, classes: int) -> nn.Module:
    """Make the linen module from its settings."""
    return ReducedTeacherModule(config, classes)
