"""Logit adjustment for classes of very different sizes (Menon et al., 2021).

    CE(y, softmax(f(x; θ) + τ log π))        π: the classes' shares among the labelled examples

The adjustment is in the loss alone: f itself then predicts as if all classes were equally frequent. The other way is to
sample all classes equally often: `labeled_sampling = "balanced"` of a stage. With both, rare classes would count twice.
"""

from dataclasses import dataclass
from typing import Annotated

import jax.numpy as jnp
from annotated_types import Ge

from metapl.schema import ConfigError
from metapl.types import Array


@dataclass(frozen=True)
class LogitAdjustment:
    """What the loss on labelled examples adds to the logits."""

    strength: Annotated[float, Ge(0)] = 0.0
    """τ; 0 adds nothing, 1 is the paper's."""
    prior: tuple[float, ...] = ()
    """π: each class's share of the labelled examples; required if strength is above 0."""

    def check(self) -> None:
        """Check that every share has a logarithm."""
        if self.strength and not self.prior:
            raise ValueError("a strength above 0 needs the prior: each class's share of the labelled examples")
        if not all(0 < share <= 1 for share in self.prior):
            raise ValueError(f"prior takes shares above 0, and at most 1, got {self.prior}")


def adjusted(config: LogitAdjustment, logits: Array) -> Array:
    """f(x; θ) + τ log π, for a loss; with strength 0 the logits are returned unchanged."""
    if not config.strength:
        return logits
    if len(config.prior) != logits.shape[-1]:
        raise ConfigError(
            f"logit_adjustment.prior has {len(config.prior)} shares, but there are {logits.shape[-1]} classes"
        )
    return logits + config.strength * jnp.log(jnp.asarray(config.prior, logits.dtype))
