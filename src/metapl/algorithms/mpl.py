"""Meta Pseudo Labels (Section 2; Algorithm 1 of Appendix B).

    ŷ_u  ~ T(x_u; θ_T)
    θ_S' = θ_S − η_S ∇_{θ_S} CE(ŷ_u, S(x_u; θ_S))
    h    = η_S ⟨∇_{θ_S'} CE(y_l, S(x_l; θ_S')), ∇_{θ_S} CE(ŷ_u, S(x_u; θ_S))⟩       (see feedback.py)
    g_T  = h ∇_{θ_T} CE(ŷ_u, T(x_u; θ_T))
         + ∇_{θ_T} CE(y_l, T(x_l; θ_T))
         + λ ∇_{θ_T} CE(StopGradient(T(x_u; θ_T)^(1/τ)), T(RandAugment(x_u); θ_T))
    θ_T' = θ_T − η_T g_T

The last two terms of g_T are the teacher's own method: UDA as above, or another of Table 10.

| the teacher's own method | settings                                                              | alone        |
|--------------------------|-----------------------------------------------------------------------|--------------|
| supervised               | `consistency.weight = 0`, the default                                 | `supervised` |
| RandAugment              | `labeled_view = "strong"`                                             | `supervised` |
| Mixup                    | `mixup = 1.0`, or another α                                           | `supervised` |
| Pseudo Labels, its own   | `consistency = {weight = 1.0, labels = "hard", view = "weak", threshold = 0.95}` | `uda` |
| UDA                      | `consistency.weight = 1.0`, or another λ                              | `uda`        |
| FixMatch (not the paper's) | `consistency = {weight = 1.0, labels = "hard", threshold = 0.95}`   | `fixmatch`   |

The labels that train the student are the labels credited to the teacher. Only the student is evaluated.

Table 8's label smoothing α is common to both networks: the teacher's CE(y_l, ·) and the student's CE(ŷ_u, ·) take
(1 − α) q + α / C for q, as in the released code. It is part of the student's loss, not of the label: ŷ_u stays the
sample, and the teacher is credited for log T(ŷ_u), since α / C is no choice of the teacher's. In the feedback it is a
factor 1 − α and a shift that all labels share; the estimators have both, exactly. CE(y_l, S(x_l; θ_S')) stays
unsmoothed: it is Equation 3's objective, the student's answer to true labels, and nobody's training loss.

Without feedback the teacher is, bit for bit, what its own method alone makes of the same seed: it gets the keys that
`init` and `step` were given, and passes labelled views alone (supervised) or with the others (UDA) as that does.

A student that waits (`student_wait_steps`, as in the released code) does not change, so it has no answer: until then
the teacher gets no credit and the baseline stays. Its warm-up and its schedule begin when it does.

| symbol           | name                          |
|------------------|-------------------------------|
| T, θ_T / S, θ_S  | state.teacher / state.student |
| x_l, y_l         | views.labeled, views.labels; the teacher's: labeled.inputs, labeled.targets |
| x_u              | views.weak                    |
| RandAugment(x_u) | views.strong                  |
| ŷ_u (or T(x_u))  | targets                       |
| λ, τ             | config.consistency            |
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from annotated_types import Ge, Lt

from metapl import optim
from metapl.algorithms import feedback as feedbacks
from metapl.algorithms import learner as learners
from metapl.algorithms.balance import LogitAdjustment, adjusted
from metapl.algorithms.feedback import Feedback
from metapl.algorithms.forward import Logits, forward_apart, forward_views
from metapl.algorithms.labeled import Labeled, labeled_batch
from metapl.algorithms.losses import Consistency, accuracy, capped_cross_entropy, consistency, ramped
from metapl.algorithms.student import feedback_metrics, pseudo_labels, update_student
from metapl.schema import ConfigError
from metapl.types import (
    PSEUDO_LABELS,
    Algorithm,
    Array,
    Labeler,
    Learner,
    MethodConfig,
    Metrics,
    Network,
    PyTree,
    Views,
    Weights,
)


@dataclass(frozen=True)
class MPL(MethodConfig):
    """Train a teacher and a student together; the teacher learns from how the student then does."""

    name: ClassVar[str] = "mpl"

    feedback: Feedback = Feedback()
    labels: Literal["hard", "soft"] = "hard"
    """Sample one label for each example from the teacher, or pass on its whole distribution."""
    student_view: Literal["weak", "strong"] = "weak"
    """Which view of the unlabelled examples the student learns from."""
    supervised_weight: Annotated[float, Ge(0)] = 1.0
    """Factor of the teacher's own loss on labelled examples; 0 leaves it the feedback alone."""
    labeled_view: Literal["weak", "strong"] = "weak"
    """Which view of the labelled examples the teacher's own loss is on; the feedback is on the weak one always."""
    mixup: Annotated[float, Ge(0)] = 0.0
    """α of Mixup in the teacher's own loss on labelled examples; 0 mixes nothing."""
    consistency: Consistency = Consistency(weight=0.0)
    """The teacher's UDA term; weight 0 leaves it out."""
    label_smoothing: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Share of the teacher's true labels and of the student's pseudo labels that is spread evenly over all classes."""
    teacher: optim.Optimizer = optim.Optimizer()
    student: optim.Optimizer = optim.Optimizer()
    teacher_dropout: Annotated[float, Ge(0), Lt(1)] | None = None
    """The teacher's dropout rate (Table 8); none: the model's."""
    student_dropout: Annotated[float, Ge(0), Lt(1)] | None = None
    """The student's dropout rate (Table 8); none: the model's."""
    student_wait_steps: Annotated[int, Ge(0)] = 0
    """Steps that the teacher learns by itself before the student begins (released code: 3,000 on CIFAR-10)."""
    student_start: Literal["fresh", "teacher"] = "fresh"
    """fresh: the student begins with weights of its own, as in the paper; teacher: with those that the teacher has from
    the stage before, where there is one: fewer steps are needed."""
    logit_adjustment: LogitAdjustment = LogitAdjustment()
    """Of the teacher's own loss on labelled examples; its pseudo labels are then those of classes of equal size."""

    def check(self) -> None:
        """Check fields against each other."""
        if self.consistency.labeled_cap != "none" and (self.mixup or not self.consistency.weight):
            raise ValueError("consistency.labeled_cap needs a consistency.weight above 0, and a mixup of 0")
        feedbacks.refuse_wrong_labels(self.feedback, self.labels)


class State(NamedTuple):
    """Both networks and the moving average of h."""

    teacher: Learner
    student: Learner
    baseline: Array


def build(config: MPL, network: Network, steps: int) -> Algorithm:
    """Make the method from its settings."""
    if config.student_wait_steps >= steps:
        raise ConfigError(
            f"student_wait_steps ({config.student_wait_steps}) must be fewer than the stage's {steps} steps"
        )
    teacher_optimizer = optim.build(config.teacher, steps)
    student_optimizer = optim.build(config.student, steps - config.student_wait_steps)
    teacher_network, student_network = (
        network if rate is None else network.with_dropout(rate)
        for rate in (config.teacher_dropout, config.student_dropout)
    )
    estimator = feedbacks.ESTIMATORS[config.feedback.estimator]

    def init(key: Array, views: Views, start: Weights | None) -> State:
        teacher = learners.create(network, teacher_optimizer, key, views.labeled, start)
        own = start if config.student_start == "teacher" else None
        student = learners.create(network, student_optimizer, jax.random.fold_in(key, 1), views.weak, own)
        return State(teacher, student, jnp.zeros((), views.weak.dtype))

    def step(state: State, views: Views, key: Array) -> tuple[State, Metrics]:
        teacher, student, baseline = state
        weak_key, sample_key, student_key, labeled_key = jax.random.split(key, 4)
        labeled = labeled_batch(views, config.labeled_view, config.mixup, key)

        # T(x; θ_T): forward now; the backward pass waits until the student has answered.
        def teach(params: PyTree) -> tuple[Logits, PyTree]:
            seen = views._replace(labeled=labeled.inputs)
            return _forward(config, teacher_network, params, teacher.stats, seen, (key, weak_key))

        logits, teacher_backward, teacher_stats = jax.vjp(teach, teacher.params, has_aux=True)

        # ŷ_u ~ T(x_u; θ_T)
        targets = pseudo_labels(config.labels, sample_key, logits.weak)

        # θ_S' = θ_S − η_S ∇_{θ_S} CE(ŷ_u, S(x_u; θ_S))
        x_u = views.strong if config.student_view == "strong" else views.weak
        keys = (student_key, labeled_key)
        new_student, update, student_metrics = update_student(
            student_network, student, student_optimizer, targets, x_u, views, config.label_smoothing, keys
        )

        # h = η_S ⟨∇_{θ_S'} CE(y_l, S(x_l; θ_S')), ∇_{θ_S} CE(ŷ_u, S(x_u; θ_S))⟩
        answer = estimator.ask(update)
        credit = feedbacks.credit(config.feedback, answer.h, baseline, targets)
        new_baseline = feedbacks.next_baseline(config.feedback, answer.h, baseline, targets)
        if config.student_wait_steps:
            new = (new_student, credit, new_baseline)
            old = (student, jnp.zeros_like(credit), baseline)
            new_student, credit, new_baseline = _once(teacher.updates >= config.student_wait_steps, new, old)

        # θ_T' = θ_T − η_T g_T
        teacher_metrics, g_logits = _teacher_losses(config, logits, labeled, credit, teacher.updates, steps)
        (g_teacher,) = teacher_backward(g_logits)
        new_teacher = learners.update(teacher, teacher_optimizer, g_teacher, teacher_stats)

        metrics = teacher_metrics | student_metrics | feedback_metrics(answer, targets, views.labels)
        metrics["teacher_gradient_norm"] = optax.tree.norm(g_teacher)
        metrics["baseline"] = baseline
        metrics[PSEUDO_LABELS] = targets
        return State(new_teacher, new_student, new_baseline), metrics

    return Algorithm(
        init, step, lambda state: state.student.weights, Labeler(lambda state: state.teacher.current, teaches=True)
    )


def _forward(
    config: MPL, network: Network, params: PyTree, stats: PyTree, views: Views, keys: tuple[Array, Array]
) -> tuple[Logits, PyTree]:
    """T(x; θ_T) of all views as the teacher's own method passes them, so that its bits are that method's."""
    key, weak_key = keys
    if config.consistency.weight > 0:
        logits, stats = forward_views(config.consistency, network, params, stats, views, key)
    else:
        logits, stats = forward_apart(network, params, stats, views, key, weak_key)
    return _without_feedback(config, logits), stats


def _once(begun: Array | bool, new: PyTree, old: PyTree) -> PyTree:
    """Give `new` when the student has begun, else `old`."""
    return jax.tree.map(lambda new, old: jnp.where(begun, new, old), new, old)


def _without_feedback(config: MPL, logits: Logits) -> Logits:
    """Hold T(x_u) fixed where no loss is on it: a backward pass of zeros would be work, and other bits than without."""
    on_weak = config.consistency.weight > 0 and config.consistency.view == "weak"
    if config.feedback.estimator != "none" or on_weak:
        return logits
    return logits._replace(weak=jax.lax.stop_gradient(logits.weak))


def _teacher_losses(
    config: MPL, logits: Logits, labeled: Labeled, credit: Array, t: Array | int, steps: int
) -> tuple[Metrics, Logits]:
    """The teacher's losses, and the gradient of their sum with respect to its logits."""
    term, y_l = config.consistency, labeled.targets(logits.labeled)

    def loss(logits: Logits) -> tuple[Array, Metrics]:
        own = adjusted(config.logit_adjustment, logits.labeled)
        supervised, own_mask = capped_cross_entropy(term, y_l, own, config.label_smoothing, t / steps)
        metrics = {"teacher_loss": supervised, "teacher_labeled_accuracy": accuracy(y_l, logits.labeled)}
        total = config.supervised_weight * supervised
        if config.feedback.estimator != "none":
            total += jnp.sum(credit * -jax.nn.log_softmax(logits.weak))
        if term.weight > 0:
            unsupervised, mask = consistency(term, logits.weak, logits.learning(term))
            total += ramped(term, unsupervised, t)
            metrics["consistency_loss"] = unsupervised
            metrics["mask_rate"], metrics["labeled_mask_rate"] = jnp.mean(mask), jnp.mean(own_mask)
        return total, metrics

    cotangent, metrics = jax.grad(loss, has_aux=True)(logits)
    return metrics, cotangent
