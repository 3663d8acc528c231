"""From settings to an optax transformation."""

from dataclasses import dataclass
from typing import Annotated, Literal

import jax
import optax
from annotated_types import Ge, Gt, Lt

from metapl.schema import ConfigError
from metapl.types import PyTree


@dataclass(frozen=True)
class Optimizer:
    """How a network's gradients become its update. The default is the paper's TwoMoon: plain SGD."""

    learning_rate: Annotated[float, Gt(0)] = 0.1
    """Step size, after warm-up and before decay."""
    schedule: Literal["constant", "cosine"] = "constant"
    """What becomes of the learning rate until the stage's last step."""
    warmup_steps: Annotated[int, Ge(0)] = 0
    """Steps of linear rise from 0."""
    momentum: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Share of the last update that is kept."""
    nesterov: bool = False
    """Look ahead along the momentum (the paper's choice for its ResNets, with 0.9)."""
    weight_decay: Annotated[float, Ge(0)] = 0.0
    """L2 penalty, added to the gradient of every weight that is not a bias or a scale."""
    clip_norm: Annotated[float, Ge(0)] = 0.0
    """Largest norm of the gradient; 0 leaves it alone."""

    def check(self) -> None:
        """Say what no single field can."""
        if self.nesterov and not self.momentum:
            raise ValueError("nesterov needs a momentum above 0")

    def check_steps(self, total_steps: int) -> None:
        """Refuse a stage that ends before the warm-up does."""
        if self.schedule == "cosine" and self.warmup_steps >= total_steps:
            raise ConfigError(f"warmup_steps ({self.warmup_steps}) must be fewer than the stage's {total_steps} steps")


def build(config: Optimizer, total_steps: int) -> optax.GradientTransformation:
    """Chain clipping, weight decay, momentum and the schedule, in that order."""
    config.check_steps(total_steps)
    parts = []
    if config.clip_norm:
        parts.append(optax.clip_by_global_norm(config.clip_norm))
    if config.weight_decay:
        parts.append(optax.add_decayed_weights(config.weight_decay, mask=_is_matrix))
    parts.append(optax.sgd(_schedule(config, total_steps), config.momentum or None, config.nesterov))
    return optax.chain(*parts)


def _schedule(config: Optimizer, total_steps: int) -> optax.ScalarOrSchedule:
    rate = config.learning_rate
    if config.schedule == "cosine":
        return optax.warmup_cosine_decay_schedule(0.0, rate, config.warmup_steps, total_steps)
    if config.warmup_steps:
        return optax.linear_schedule(0.0, rate, config.warmup_steps)
    return rate


def _is_matrix(params: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: leaf.ndim > 1, params)
