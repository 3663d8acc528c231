"""Pseudo labels for a student, its step with them, and what the feedback will ask about it."""

import jax
import optax

from metapl import optim
from metapl.algorithms import feedback as feedbacks
from metapl.algorithms import learner as learners
from metapl.algorithms.feedback import Answer, StudentUpdate
from metapl.algorithms.losses import accuracy, cross_entropy, label_costs
from metapl.types import Array, Learner, Metrics, Network, PyTree, Views


def pseudo_labels(kind: str, key: Array, logits: Array) -> Array:
    """Labels as distributions [U, C]: "hard", one-hot ŷ_u ~ T(x_u; θ_T), or "soft", T(x_u; θ_T) itself."""
    if kind == "soft":
        return jax.nn.softmax(logits)
    return jax.nn.one_hot(jax.random.categorical(key, logits), logits.shape[-1], dtype=logits.dtype)


def update_student(
    network: Network,
    student: Learner,
    optimizer: optim.Descent,
    targets: Array,
    x_u: Array,
    views: Views,
    smoothing: float,
    keys: tuple[Array, Array],
) -> tuple[Learner, StudentUpdate, Metrics]:
    """θ_S' = θ_S − η_S ∇_{θ_S} CE(targets, S(x_u; θ_S)); the labelled views are for the feedback alone.

    The targets are smoothed for the student's own loss; CE(y_l, S(x_l; θ)) is not (see mpl.py).
    """
    student_key, labeled_key = keys

    def unlabeled_loss(params: PyTree) -> tuple[Array, tuple[Array, PyTree]]:
        logits, stats = network.apply(params, student.stats, x_u, train=True, key=student_key)
        return cross_entropy(targets, logits, smoothing), (logits, stats)

    def labeled_loss(params: PyTree) -> tuple[Array, Array]:
        logits, _ = network.apply(params, student.stats, views.labeled, train=True, key=labeled_key)
        return cross_entropy(views.labels, logits), logits

    (loss, (logits, stats)), gradient = jax.value_and_grad(unlabeled_loss, has_aux=True)(student.params)
    new_student = learners.update(student, optimizer, gradient, stats)
    update = StudentUpdate(
        params=student.params,
        new_params=new_student.params,
        gradient=gradient,
        descend=learners.descend(student, optimizer, gradient),
        labeled_loss=labeled_loss,
        label_costs=lambda params: label_costs(unlabeled_loss(params)[1][0], smoothing),
    )
    metrics = {
        "student_loss": loss,
        "student_agreement": accuracy(targets, logits),
        "student_gradient_norm": optax.tree.norm(gradient),
    }
    return new_student, update, metrics


def feedback_metrics(answer: Answer, targets: Array, labels: Array) -> Metrics:
    """What the student's answer says; its labelled accuracy is that of the forward pass that the estimator made."""
    metrics = {"feedback": feedbacks.mean_h(answer.h, targets)}
    if answer.cosine is not None:
        metrics["feedback_cosine"] = answer.cosine
    if answer.labeled_logits is not None:
        metrics["student_labeled_accuracy"] = accuracy(labels, answer.labeled_logits)
    return metrics
