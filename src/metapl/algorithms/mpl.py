"""Meta Pseudo Labels (Section 2; Algorithm 1 of Appendix B).

    ŷ_u  ~ T(x_u; θ_T)
    θ_S' = θ_S − η_S ∇_{θ_S} CE(ŷ_u, S(x_u; θ_S))
    h    = η_S ⟨∇_{θ_S'} CE(y_l, S(x_l; θ_S')), ∇_{θ_S} CE(ŷ_u, S(x_u; θ_S))⟩       (see feedback.py)
    g_T  = h ∇_{θ_T} CE(ŷ_u, T(x_u; θ_T))
         + ∇_{θ_T} CE(y_l, T(x_l; θ_T))
         + λ ∇_{θ_T} CE(StopGradient(T(x_u; θ_T)^(1/τ)), T(RandAugment(x_u); θ_T))
    θ_T' = θ_T − η_T g_T

The labels that train the student are the labels credited to the teacher. Only the student is evaluated.

Table 8's label smoothing α is common to both networks: the teacher's CE(y_l, ·) and the student's CE(ŷ_u, ·) take
(1 − α) q + α / C for q, as in the released code. It is part of the student's loss, not of the label: ŷ_u stays the
sample, and the teacher is credited for log T(ŷ_u), since α / C is no choice of the teacher's. In the feedback it is a
factor 1 − α and a shift that all labels share; the estimators have both, exactly. CE(y_l, S(x_l; θ_S')) stays
unsmoothed: it is Equation 3's objective, the student's answer to true labels, and nobody's training loss.

Without feedback the teacher is, bit for bit, what its own method alone makes of the same seed: it gets the keys that
`init` and `step` were given, and passes labelled views alone (supervised) or all views together (UDA) as that does.

| symbol           | name                          |
|------------------|-------------------------------|
| T, θ_T / S, θ_S  | state.teacher / state.student |
| x_l, y_l         | views.labeled, views.labels   |
| x_u              | views.weak                    |
| RandAugment(x_u) | views.strong                  |
| ŷ_u (or T(x_u))  | targets                       |
| λ, τ             | config.consistency            |
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
from annotated_types import Ge, Lt

from metapl import optim
from metapl.algorithms import feedback as feedbacks
from metapl.algorithms import learner as learners
from metapl.algorithms.feedback import Feedback, StudentUpdate
from metapl.algorithms.forward import Logits, forward_apart, forward_views
from metapl.algorithms.losses import Consistency, accuracy, consistency, cross_entropy, label_costs
from metapl.types import Algorithm, Array, Learner, MethodConfig, Metrics, Network, PyTree, Views, Weights


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
    consistency: Consistency = Consistency(weight=0.0)
    """The teacher's UDA term; weight 0 leaves it out."""
    label_smoothing: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Share of the teacher's true labels and of the student's pseudo labels that is spread evenly over all classes."""
    teacher: optim.Optimizer = optim.Optimizer()
    student: optim.Optimizer = optim.Optimizer()

    def check(self) -> None:
        """A sampled-label estimator on soft labels is the released code's error: its gradient is zero."""
        allowed = feedbacks.ESTIMATORS[self.feedback.estimator].labels
        if self.labels not in allowed:
            raise ValueError(
                f"feedback.estimator {self.feedback.estimator!r} is right for {allowed[0]} labels only; "
                f"set labels to {allowed[0]!r} or choose another estimator"
            )


class State(NamedTuple):
    """Both networks and the moving average of h."""

    teacher: Learner
    student: Learner
    baseline: Array


def build(config: MPL, network: Network, steps: int) -> Algorithm:
    """Make the method from its settings."""
    teacher_optimizer = optim.build(config.teacher, steps)
    student_optimizer = optim.build(config.student, steps)
    estimator = feedbacks.ESTIMATORS[config.feedback.estimator]

    def init(key: Array, views: Views, start: Weights | None) -> State:
        teacher = learners.create(network, teacher_optimizer, key, views.labeled, start)
        student = learners.create(network, student_optimizer, jax.random.fold_in(key, 1), views.weak)
        return State(teacher, student, jnp.zeros((), views.weak.dtype))

    def step(state: State, views: Views, key: Array) -> tuple[State, Metrics]:
        teacher, student, baseline = state
        weak_key, sample_key, student_key, labeled_key = jax.random.split(key, 4)

        # T(x; θ_T): forward now; the backward pass waits until the student has answered.
        def teach(params: PyTree) -> tuple[Logits, PyTree]:
            if config.consistency.weight > 0:
                return forward_views(config.consistency, network, params, teacher.stats, views, key)
            return forward_apart(network, params, teacher.stats, views, key, weak_key)

        logits, teacher_backward, teacher_stats = jax.vjp(teach, teacher.params, has_aux=True)

        # ŷ_u ~ T(x_u; θ_T)
        targets = _draw(config, sample_key, logits.weak)

        # θ_S' = θ_S − η_S ∇_{θ_S} CE(ŷ_u, S(x_u; θ_S))
        x_u = views.strong if config.student_view == "strong" else views.weak
        new_student, update, student_metrics = _update_student(
            config, network, student, student_optimizer, x_u, targets, views, (student_key, labeled_key)
        )

        # h = η_S ⟨∇_{θ_S'} CE(y_l, S(x_l; θ_S')), ∇_{θ_S} CE(ŷ_u, S(x_u; θ_S))⟩
        h = estimator.h(update)
        credit = feedbacks.credit(config.feedback, h, baseline, targets)

        # θ_T' = θ_T − η_T g_T
        teacher_losses, g_logits = _teacher_losses(config, logits, views.labels, credit)
        (g_teacher,) = teacher_backward(g_logits)
        new_teacher = learners.update(teacher, teacher_optimizer, g_teacher, teacher_stats)

        new_baseline = feedbacks.next_baseline(config.feedback, h, baseline, targets)
        metrics = teacher_losses | student_metrics
        metrics["teacher_labeled_accuracy"] = accuracy(views.labels, logits.labeled)
        metrics["feedback"] = feedbacks.mean_h(h, targets)
        metrics["baseline"] = baseline
        return State(new_teacher, new_student, new_baseline), metrics

    return Algorithm(init, step, lambda state: state.student.weights)


def _update_student(
    config: MPL,
    network: Network,
    student: Learner,
    optimizer: optim.Descent,
    x_u: Array,
    targets: Array,
    views: Views,
    keys: tuple[Array, Array],
) -> tuple[Learner, StudentUpdate, Metrics]:
    """Take the student's step, and keep what the feedback will ask about it."""
    student_key, labeled_key = keys

    def unlabeled_loss(params: PyTree) -> tuple[Array, tuple[Array, PyTree]]:
        logits, stats = network.apply(params, student.stats, x_u, train=True, key=student_key)
        return cross_entropy(targets, logits, config.label_smoothing), (logits, stats)

    def labeled_loss(params: PyTree) -> Array:
        logits, _ = network.apply(params, student.stats, views.labeled, train=True, key=labeled_key)
        return cross_entropy(views.labels, logits)

    (loss, (logits, stats)), gradient = jax.value_and_grad(unlabeled_loss, has_aux=True)(student.params)
    new_student = learners.update(student, optimizer, gradient, stats)
    update = StudentUpdate(
        params=student.params,
        new_params=new_student.params,
        gradient=gradient,
        descend=learners.descend(student, optimizer, gradient),
        labeled_loss=labeled_loss,
        label_costs=lambda params: label_costs(unlabeled_loss(params)[1][0], config.label_smoothing),
    )
    agreement = accuracy(jnp.argmax(targets, axis=-1), logits)
    return new_student, update, {"student_loss": loss, "student_agreement": agreement}


def _draw(config: MPL, key: Array, logits: Array) -> Array:
    """Pseudo labels as distributions [U, C]: one-hot ŷ_u ~ T(x_u; θ_T), or T(x_u; θ_T) itself."""
    if config.labels == "soft":
        return jax.nn.softmax(logits)
    return jax.nn.one_hot(jax.random.categorical(key, logits), logits.shape[-1], dtype=logits.dtype)


def _teacher_losses(config: MPL, logits: Logits, labels: Array, credit: Array) -> tuple[Metrics, Logits]:
    """The teacher's losses, and the gradient of their sum with respect to its logits."""

    def loss(logits: Logits) -> tuple[Array, Metrics]:
        terms = {"teacher_loss": cross_entropy(labels, logits.labeled, config.label_smoothing)}
        total = config.supervised_weight * terms["teacher_loss"]
        if config.feedback.estimator != "none":
            total += jnp.sum(credit * -jax.nn.log_softmax(logits.weak))
        if config.consistency.weight > 0:
            learning = logits.learning(config.consistency)
            terms["consistency_loss"], _ = consistency(config.consistency, logits.weak, learning)
            total += config.consistency.weight * terms["consistency_loss"]
        return total, terms

    cotangent, terms = jax.grad(loss, has_aux=True)(logits)
    return terms, cotangent
