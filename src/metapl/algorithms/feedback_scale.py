"""How strong the feedback is: scales that depend neither on η_S nor on batch sizes nor on optimizers.

h is what *one* step of the student is worth: η_S / U times a slope, and the slope is as large as the student's tangent
kernel, which differs a thousandfold between networks. So a fixed factor that is right for one task does nothing in the
next one and breaks the teacher in a third.

`horizon` counts the effect for as long as the student keeps it. Near θ_S the student's loss on x_u is quadratic, with
G its curvature (Gauss-Newton). Later steps, whose labels are the same, overwrite what a step has changed: after k of
them (1 − η_S G)^k of it is left. So a label that stays lowers the labelled loss, over n steps, by

    Σ_{k<n} ⟨v, (1 − η_S G)^k η_S ∇CE(c, S(x_i))⟩ / U  ≈  K (1 − (1 − 1/K)^n) h_ic  →  K h_ic

    1 / K = dᵀ G d / ⟨v, d⟩ = η_S · vᵀ G v / vᵀ v                                (d = η_S v for SGD)

with the curvature along v in place of G: K is the student's horizon, in steps. K h has neither η_S nor the momentum nor
U in it: all cancel. dᵀ G d is the mean over x_i of the variance of the slopes of S's logits along d, and the product
that gives h_ic has these slopes: K costs nothing (`feedback.horizon`). The tests compare K (1 − (1 − 1/K)^n) with
automatic differentiation through n steps. The direction stays that of one step.

How large a weight may be. The teacher moves as K h asks it to, the student follows the teacher, and h is measured at
the student: a loop, in which momentum is a delay. Along one direction, with s and t the answers of student and teacher,
s* what the labelled examples ask for, equal networks and rates, and w = `feedback.weight`, the gradients are

    student: (s − t) / K              teacher: w (s − s*) / K              in units of a step

With momentum μ in both, s and t obey τ s″ + s′ = a (t − s) and τ t″ + t′ = w a (s* − s), with a = 1 / (K (1 − μ)) and
τ = (1 + μ) / (2 (1 − μ)). By Hurwitz' criterion, this comes to rest at s = t = s* if and only if 2 + τ a > 4 w τ a:

    w < 1/4 + K (1 − μ)² / (1 + μ)

Else teacher and student swing around s*, ever wider. Without momentum any w up to about K is stable. With μ = 0.9 the
last term is K / 190, so weight 1 is too large if K is below 140, and 1/4 is never too large. The tests compare the
bound with the steps of the optimizers. Other ratios of the two networks' speeds move it.

`balanced` measures both terms where they meet, in the teacher's gradient:

    g_own = ∇_{θ_T} [the teacher's own losses]
    g_fed = ∇_{θ_T} Σ_ic credit_ic (−log T_c(x_i; θ_T))
    r     = the lowest mean(‖g_own‖) so far
    g_T   = g_own + ρ · r / max(mean(‖g_fed‖), ‖g_fed‖) · g_fed

`mean` is a moving average over the steps. So the feedback is, on average, ρ times as strong as the teacher's own
losses. Steps in which the student has more to say count for more. The present step in the denominator bounds every
single one by ρ · r, so that no step can throw the teacher. r never rises: a teacher that the feedback drives away from
its labels has a larger gradient of its own, and the feedback must not grow with it. But r falls to almost 0 when the
teacher has learnt its few labels, and the feedback with it. Only a ratio of averages enters: their start at 0 cancels,
and no warm-up is needed. Any factor of h cancels, too. It costs one more backward pass of the teacher.

| symbol    | name                                                    |
|-----------|---------------------------------------------------------|
| K         | Estimate.horizon                                        |
| ρ, w      | feedback.weight                                         |
| mean(‖·‖) | Balance.own, Balance.fed over Balance.seen (scale_decay) |
| r         | Balance.lowest                                          |
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import optax

from metapl.algorithms.feedback import Feedback
from metapl.types import Array, PyTree


class Balance(NamedTuple):
    """Moving averages, which start at 0, and the lowest of one of them."""

    own: Array  # ‖g_own‖
    fed: Array  # ‖g_fed‖
    seen: Array  # 1: how complete the averages are
    lowest: Array  # r; starts at infinity


def start(config: Feedback, dtype: jnp.dtype) -> Balance | None:
    """Return empty averages; None if the scale needs none."""
    if config.scale != "balanced":
        return None
    own, fed, seen = jnp.zeros((3,), dtype)
    return Balance(own, fed, seen, jnp.full((), jnp.inf, dtype))


def teacher_gradient(
    config: Feedback, balance: Balance | None, backward: Callable[..., tuple[PyTree]], own_loss: Array, g_logits: Array
) -> tuple[PyTree, Balance | None]:
    """Return g_T and the next averages; `backward` takes the cotangents of the own loss and of the teacher's logits."""
    if balance is None:
        (g_teacher,) = backward((jnp.ones_like(own_loss), g_logits))
        return g_teacher, None
    (g_own,) = backward((jnp.ones_like(own_loss), jnp.zeros_like(g_logits)))
    (g_fed,) = backward((jnp.zeros_like(own_loss), g_logits))
    fed, decay = optax.tree.norm(g_fed), config.scale_decay
    own_mean, fed_mean, seen = (
        decay * old + (1 - decay) * new
        for old, new in zip(balance[:3], (optax.tree.norm(g_own), fed, jnp.ones_like(fed)), strict=True)
    )
    balance = Balance(own_mean, fed_mean, seen, jnp.minimum(balance.lowest, own_mean / seen))
    return optax.tree.add_scale(g_own, factor(config, balance, fed), g_fed), balance


def factor(config: Feedback, balance: Balance, fed: Array) -> Array:
    """ρ · r / max(mean(‖g_fed‖), ‖g_fed‖); 0 if all feedback so far was zero."""
    most = jnp.maximum(balance.fed / balance.seen, fed)
    return jnp.where(most > 0, config.weight * balance.lowest / jnp.where(most > 0, most, 1), 0)
