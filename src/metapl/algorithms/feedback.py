"""The feedback h that the teacher gets from the student: the core of Meta Pseudo Labels (Appendix A, C.3).

One update of the student, and how the labelled loss responds to it:

    g    = ∇_{θ_S} CE(q, S(x_u; θ_S))                    q: pseudo labels, hard ŷ ~ T(x_u; θ_T) or soft T(x_u; θ_T)
    θ_S' = θ_S + u(g)                                    u: the student's optimizer; u(g) = −η_S g for SGD
    v    = ∇_{θ_S'} CE(y_l, S(x_l; θ_S'))
    h    = −⟨v, u(g) − u(0)⟩                             Equation 12: the whole batch at once; η_S ⟨v, g⟩ for SGD

so that, to first order, the step lowers the labelled loss by h more than a step with no gradient would. And one label's
share of it: to first order, moving g by δ lowers the labelled loss by ⟨d, δ⟩, and CE is linear in q, hence

    d    = −(∂u/∂g)ᵀ v                                   d = η_S v for SGD
    h_ic = ⟨d, ∇_{θ_S} CE(c, S(x_i; θ_S))⟩ / U           what more of label c on example i of U lowers the loss by

The teacher then descends the gradient of

    Σ_ic credit_ic · (−log T_c(x_i; θ_T)),   credit_ic = q_ic (h − b),   credit held fixed, b a moving average of h.

| estimator           | h                                         | q    | credited                        |
|---------------------|-------------------------------------------|------|---------------------------------|
| `dot`               | −⟨v, u(g) − u(0)⟩                         | hard | to the sum (one joint sample)   |
| `cosine`            | ⟨v, g⟩ / (‖v‖ ‖g‖), in [−1, 1]            | hard | to the mean, as in C.3          |
| `finite_difference` | CE(y_l, S(x_l; θ_S)) − CE(y_l, S(x_l; θ_S')) | hard | to the sum                   |
| `per_example`       | h_ic, all by one forward-mode product     | hard | to each example, its own        |
| `soft`              | h_ic; with q = T the gradient of Eq. 3, exactly | soft | to each example and class |
| `none`              | 0: the control                            | both | –                               |
| `rolled`            | h_ic of the example before: credit to the wrong one | both | as the two above      |
| `negated`           | −h_ic: the wrong sign                     | both | as the two above                |
| `noise`             | random, for each example as long as h_i   | both | as the two above                |

What holds for which optimizer. E is over the labels, the truth is the gradient of the expected labelled loss:

- `finite_difference`: E[credit] is the truth exactly, for every optimizer and every η_S. It has the most noise.
- `soft` is the gradient of Equation 3 exactly, for every optimizer with a derivative: AdamW has none at a weight whose
  gradients were all exactly 0. There `soft` and `per_example` are not finite, and the run stops.
- `dot`: E[credit] is the truth to first order in the student's step, for every optimizer. ⟨d, g⟩ would not do: where
  `clip_norm` is active or LARS normalises, u hardly depends on the length of g, its Jacobian has no part along g, and
  ⟨d, g⟩ is 0 whatever the labels.
- `per_example`: where u is linear in g (SGD with or without momentum and weight decay, not clipped) Σ_ic q_ic h_ic = h,
  and what it drops of `dot` is cross terms of mean zero: the same expectation, less noise. Elsewhere it is right to
  first order in the share of one example, 1/U: not for a handful of examples.
- `cosine` has the sign of `dot` where u(g) − u(0) is a multiple of −g: SGD with momentum, weight decay and clipping.
  With LARS and RMSProp, whose parts have factors of their own, it mostly has.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from annotated_types import Ge, Lt

from metapl.algorithms.losses import accuracy, label_costs
from metapl.types import Array, Metrics, PyTree


@dataclass(frozen=True)
class Feedback:
    """How h becomes the teacher's gradient."""

    estimator: Literal[
        "cosine", "dot", "per_example", "soft", "finite_difference", "none", "rolled", "negated", "noise"
    ] = "cosine"
    """How h is computed. The last four are controls: h = 0, credit to the wrong example, of the wrong sign, random."""
    weight: Annotated[float, Ge(0)] = 1.0
    """Factor of the feedback in the teacher's gradient, in units of `scale`. With momentum in both networks, horizon
    may be unstable above 0.25 (feedback_scale.py)."""
    scale: Literal["fixed", "horizon", "balanced"] = "fixed"
    """What weight 1 is. fixed: h as it is, the effect of one step of the student, as in the paper. horizon: the
    effect for as long as the student keeps it. balanced: a gradient as long as that of the teacher's own loss. The last
    two do not depend on learning rates, batches and optimizers (feedback_scale.py)."""
    limit: Annotated[float, Ge(0)] = 0.0
    """Largest pull of the feedback on the teacher's prediction for an example; 1: a wrong label's pull; 0: no limit."""
    scale_decay: Annotated[float, Ge(0), Lt(1)] = 0.99
    """Share of the moving averages of both lengths that each step keeps (balanced)."""
    baseline: bool = True
    """Subtract a moving average of h from h."""
    baseline_decay: Annotated[float, Ge(0), Lt(1)] = 0.99
    """Share of the moving average that each step keeps; it starts at 0."""


class StudentUpdate(NamedTuple):
    """One update of the student: all that an estimator may use."""

    params: PyTree  # θ_S
    new_params: PyTree  # θ_S'
    gradient: PyTree  # g
    moved: Callable[[], PyTree]  # () -> u(g) − u(0)
    descend: Callable[[PyTree], PyTree]  # v -> d
    labeled_loss: Callable[[PyTree], tuple[Array, Array]]  # θ -> CE(y_l, S(x_l; θ)), S's logits: one batch, mode, mask
    unlabeled_logits: Callable[[PyTree], Array]  # θ -> S's logits for all x_i [U, C], as in g
    smoothing: float  # of the pseudo labels in g
    key: Array  # for an estimator that draws
    with_horizon: bool = False  # whether K is needed; to compute it anyway would change the last bits of the rest


class Estimate(NamedTuple):
    """h, and what the estimator computes on the way to it; None if it does not."""

    h: Array  # [] or [U, C]
    labeled_logits: Array | None = None  # S(x_l; θ_S')
    cosine: Array | None = None  # ⟨v, g⟩ / (‖v‖ ‖g‖)
    horizon: Array | None = None  # how many of its steps the student keeps what it learns along d


def dot(update: StudentUpdate) -> Estimate:
    """h = −⟨v, u(g) − u(0)⟩."""
    v, logits = jax.grad(update.labeled_loss, has_aux=True)(update.new_params)
    return Estimate(-optax.tree.vdot(v, update.moved()), logits, _cosine(v, update.gradient))


def cosine(update: StudentUpdate) -> Estimate:
    """h = ⟨v, g⟩ / (‖v‖ ‖g‖)."""
    v, logits = jax.grad(update.labeled_loss, has_aux=True)(update.new_params)
    h = _cosine(v, update.gradient)
    return Estimate(h, logits, h)


def finite_difference(update: StudentUpdate) -> Estimate:
    """h = labelled loss before − after."""
    before, _ = update.labeled_loss(update.params)
    after, logits = update.labeled_loss(update.new_params)
    return Estimate(before - after, logits)


def per_example(update: StudentUpdate) -> Estimate:
    """h_ic = ⟨d, ∇ CE(c, S(x_i))⟩ / U, for all i and c at once: [U, C]."""
    v, logits = jax.grad(update.labeled_loss, has_aux=True)(update.new_params)
    d = update.descend(v)
    z, z_slopes = jax.jvp(update.unlabeled_logits, (update.params,), (d,))
    _, slopes = jax.jvp(lambda z: label_costs(z, update.smoothing), (z,), (z_slopes,))
    kept = horizon(optax.tree.vdot(v, d), z, z_slopes) if update.with_horizon else None
    return Estimate(slopes / len(slopes), logits, _cosine(v, update.gradient), kept)


def horizon(gain: Array, logits: Array, slopes: Array) -> Array:
    """K = ⟨v, d⟩ / dᵀ G d, with G the curvature (Gauss-Newton, or Fisher) of the student's loss on x_u.

    `logits` are S(x_u), `slopes` their derivatives along d. dᵀ G d is the mean over examples of the variance of the
    slopes among classes, drawn from S(x_i).
    """
    probabilities, shifts = jax.jvp(jax.nn.log_softmax, (logits,), (slopes,))
    curvature = jnp.mean(jnp.sum(jnp.exp(probabilities) * shifts**2, axis=-1))
    return gain / jnp.maximum(curvature, jnp.finfo(curvature.dtype).tiny)


def none(update: StudentUpdate) -> Estimate:
    """h = 0."""
    del update
    return Estimate(jnp.zeros(()))


def rolled(update: StudentUpdate) -> Estimate:
    """h_ic of example i − 1: of the right size and kind, for the wrong example."""
    estimate = per_example(update)
    return estimate._replace(h=jnp.roll(estimate.h, 1, axis=0))


def negated(update: StudentUpdate) -> Estimate:
    """−h_ic."""
    estimate = per_example(update)
    return estimate._replace(h=-estimate.h)


def noise(update: StudentUpdate) -> Estimate:
    """Random directions, each as long as its example's h_i; a part that all classes share has no effect on T."""
    estimate = per_example(update)
    drawn = _centred(jax.random.normal(update.key, estimate.h.shape, estimate.h.dtype))
    lengths = jnp.linalg.norm(_centred(estimate.h), axis=-1, keepdims=True)
    return estimate._replace(h=drawn / jnp.linalg.norm(drawn, axis=-1, keepdims=True) * lengths)


def _centred(h: Array) -> Array:
    return h - jnp.mean(h, axis=-1, keepdims=True)


def _cosine(v: PyTree, g: PyTree) -> Array:
    norms = optax.tree.norm(v) * optax.tree.norm(g)
    return optax.tree.vdot(v, g) / jnp.maximum(norms, jnp.finfo(norms.dtype).tiny)


class Estimator(NamedTuple):
    """An estimator, and which pseudo labels it is right for."""

    estimate: Callable[[StudentUpdate], Estimate]
    labels: tuple[str, ...] = ("hard",)  # the kinds of pseudo labels that it is right for
    mean: bool = False  # credit the batch's mean CE instead of its sum


ESTIMATORS = {
    "cosine": Estimator(cosine, mean=True),
    "dot": Estimator(dot),
    "per_example": Estimator(per_example),
    "soft": Estimator(per_example, labels=("soft",)),
    "finite_difference": Estimator(finite_difference),
    "none": Estimator(none, labels=("hard", "soft")),
    "rolled": Estimator(rolled, labels=("soft", "hard")),
    "negated": Estimator(negated, labels=("soft", "hard")),
    "noise": Estimator(noise, labels=("soft", "hard")),
}


def estimate(config: Feedback, update: StudentUpdate) -> Estimate:
    """Compute h by the chosen estimator, and K if the scale is the horizon."""
    return ESTIMATORS[config.estimator].estimate(update._replace(with_horizon=config.scale == "horizon"))


BATCH_ESTIMATORS = ("cosine", "dot", "finite_difference")  # one h for the whole batch


def check_labels(config: Feedback, labels: str) -> None:
    """Refuse an estimator that is wrong for the labels, and a scale that the estimator cannot have.

    A sampled-label estimator on soft labels is the released code's error: its gradient is zero.
    """
    if config.scale == "horizon" and config.estimator in BATCH_ESTIMATORS:
        raise ValueError(
            f"feedback.scale 'horizon' needs a feedback for every example, and estimator {config.estimator!r} has one "
            "for the batch; set feedback.estimator to 'soft' or 'per_example'"
        )
    allowed = ESTIMATORS[config.estimator].labels
    if labels not in allowed:
        raise ValueError(
            f"feedback.estimator {config.estimator!r} is right for {allowed[0]} labels only; "
            f"set labels to {allowed[0]!r} or choose another estimator"
        )


def credit(config: Feedback, estimate: Estimate, baseline: Array, targets: Array) -> Array:
    """credit_ic = weight · K · q_ic (h − b), held fixed: [U, C]; K is 1 unless `scale` is horizon."""
    advantage = estimate.h - baseline if config.baseline else estimate.h
    share = 1 / len(targets) if ESTIMATORS[config.estimator].mean else 1.0
    kept = 1.0 if estimate.horizon is None else estimate.horizon
    return jax.lax.stop_gradient(limited(config.limit, kept * config.weight * share * targets * advantage, targets))


def limited(limit: float, credit: Array, targets: Array) -> Array:
    """Shorten the credit of each example whose pull on a logit of the teacher exceeds that of `limit` wrong labels.

    The pull of credit on the logits is credit_i − q_i Σ_c credit_ic; that of a true label of U is at most 1 / U.
    """
    if not limit:
        return credit
    pulls = credit - targets * jnp.sum(credit, axis=-1, keepdims=True)
    largest = len(targets) * jnp.max(jnp.abs(pulls), axis=-1, keepdims=True)
    return credit * jnp.minimum(1, limit / jnp.maximum(largest, jnp.finfo(largest.dtype).tiny))


def next_baseline(config: Feedback, h: Array, baseline: Array, targets: Array) -> Array:
    """b' = decay · b + (1 − decay) · the h that the batch's labels got, on average."""
    return config.baseline_decay * baseline + (1 - config.baseline_decay) * mean_h(h, targets)


def mean_h(h: Array, targets: Array) -> Array:
    """One number for the log: h itself, or the mean over examples of Σ_c q_ic h_ic."""
    return h if h.ndim == 0 else jnp.mean(jnp.sum(targets * h, axis=-1))


def metrics(estimate: Estimate, targets: Array, labels: Array) -> Metrics:
    """Return h, and the cosine and the student's labelled accuracy if the estimator computed them."""
    values = {"feedback": mean_h(estimate.h, targets)}
    if estimate.cosine is not None:
        values["feedback_cosine"] = estimate.cosine
    if estimate.horizon is not None:
        values["feedback_horizon"] = estimate.horizon
    if estimate.labeled_logits is not None:
        values["student_labeled_accuracy"] = accuracy(labels, estimate.labeled_logits)
    return values
