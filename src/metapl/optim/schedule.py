"""The learning rate as a function of the step."""

import jax.numpy as jnp
import optax

from metapl.optim.settings import Optimizer
from metapl.types import Array


def learning_rate(config: Optimizer, total_steps: int) -> optax.ScalarOrSchedule:
    """Return the learning rate: a number, or a function of the step; warm-up first, then constant, cosine or falls."""
    rate, warmup = config.learning_rate, config.warmup_steps
    if config.schedule == "cosine":
        return optax.warmup_cosine_decay_schedule(0.0, rate, warmup, total_steps)
    if config.schedule == "exponential":
        rise = optax.linear_schedule(0.0, rate, warmup)
        return lambda step: jnp.where(step < warmup, rise(step), _staircase(config, step))
    if warmup:
        return optax.linear_schedule(0.0, rate, warmup)
    return rate


def _staircase(config: Optimizer, step: Array) -> Array:
    """rate · factor^⌊step / every⌋, counted from the stage's first step, warm-up included, as in EfficientNet.

    The division is one of whole numbers: optax divides floats, and XLA's product with a rounded 1 / 141 falls one step
    too late.
    """
    return config.learning_rate * config.decay_factor ** (step // config.decay_every_steps)
