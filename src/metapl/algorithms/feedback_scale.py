"""How strong the feedback is: a scale that depends neither on η_S nor on batch sizes nor on optimizers.

h is what *one* step of the student is worth: η_S / U times a slope, and the slope is as large as the student's tangent
kernel, which differs a thousandfold between networks. So a fixed factor that is right for one task does nothing in the
next one and breaks the teacher in a third. `balanced` measures both terms where they meet, in the teacher's gradient:

    g_own = ∇_{θ_T} [the teacher's own losses]
    g_fed = ∇_{θ_T} Σ_ic credit_ic (−log T_c(x_i; θ_T))
    g_T   = g_own + ρ · mean(‖g_own‖) / max(mean(‖g_fed‖), ‖g_fed‖) · g_fed

`mean` is a moving average over the steps. So the feedback is, on average, ρ times as strong as the teacher's own
losses. Steps in which the student has more to say count for more. The present step in the denominator bounds every
single one by ρ · mean(‖g_own‖), so that no step can throw the teacher. Only a ratio of averages enters: their start at
0 cancels, and no warm-up is needed. Any factor of h cancels, too: η_S, 1 / U, the optimizer, the width of the student.
It costs one more backward pass of the teacher.

| symbol         | name                           |
|----------------|--------------------------------|
| ρ              | feedback.weight                |
| mean(‖·‖)      | Balance, updated by scale_decay |
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import optax

from metapl.algorithms.feedback import Feedback
from metapl.types import Array, PyTree


class Balance(NamedTuple):
    """Moving averages that start at 0."""

    own: Array  # ‖g_own‖
    fed: Array  # ‖g_fed‖
    seen: Array  # 1: how complete the averages are


def start(config: Feedback, dtype: jnp.dtype) -> Balance | None:
    """Return empty averages; None if the scale needs none."""
    return None if config.scale == "fixed" else Balance(*jnp.zeros((3,), dtype))


def teacher_gradient(
    config: Feedback, balance: Balance | None, backward: Callable[..., tuple[PyTree]], own_loss: Array, g_logits: Array
) -> tuple[PyTree, Balance | None]:
    """Return g_T and the next averages; `backward` takes the cotangents of the own loss and of the teacher's logits."""
    if balance is None:
        (g_teacher,) = backward((jnp.ones_like(own_loss), g_logits))
        return g_teacher, None
    (g_own,) = backward((jnp.ones_like(own_loss), jnp.zeros_like(g_logits)))
    (g_fed,) = backward((jnp.zeros_like(own_loss), g_logits))
    now = Balance(optax.tree.norm(g_own), optax.tree.norm(g_fed), jnp.ones_like(balance.seen))
    decay = config.scale_decay
    balance = Balance(*(decay * old + (1 - decay) * new for old, new in zip(balance, now, strict=True)))
    return optax.tree.add_scale(g_own, factor(config, balance, now.fed), g_fed), balance


def factor(config: Feedback, balance: Balance, fed: Array) -> Array:
    """ρ · mean(‖g_own‖) / max(mean(‖g_fed‖), ‖g_fed‖); 0 if the student has had nothing to say yet."""
    most = jnp.maximum(balance.fed, balance.seen * fed)
    return jnp.where(most > 0, config.weight * balance.own / jnp.where(most > 0, most, 1), 0)
