"""Pseudo Labels: a fixed teacher labels the unlabelled data, and a fresh student learns from these labels.

    q   = T(x_u; θ_T)                    soft labels, or
    q   = argmax T(x_u; θ_T)             hard labels
    θ_S' = θ_S − η_S ∇_{θ_S} [ CE(q, S(x_u; θ_S)) + w CE(y_l, S(x_l; θ_S)) ]

The first term is over examples with max T(x_u; θ_T) ≥ threshold. It is the paper's Equation 1, with the threshold and
the label smoothing of its Table 6: (1 − α) q + α / C for q. By default w = 0, and the student sees pseudo labels only,
as Equation 1 says. Section 1 says that pseudo-labelled images are "combined with labeled images": w > 0. The teacher is
the network that the stage before trained.

| symbol | name            |
|--------|-----------------|
| θ_T    | state.teacher   |
| θ_S    | state.student   |
| q      | targets         |
| x_u    | views.weak (teacher and student), views.strong (student, if so set) |
| x_l, y_l, w | views.labeled, views.labels, config.labeled_weight |
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from annotated_types import Ge, Lt

from metapl import optim
from metapl.algorithms import learner as learners
from metapl.algorithms.losses import accuracy, confident, cross_entropies, one_hot_best, smooth
from metapl.algorithms.true_labels import StudentPass, TrueLabels
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
class PseudoLabels(MethodConfig):
    """Train a student on the labels that the stage before's network gives."""

    name: ClassVar[str] = "pseudo_labels"
    title: ClassVar[str] = "Pseudo Labels"
    needs_start: ClassVar[bool] = True

    labels: Literal["hard", "soft"] = "hard"
    """Learn from the teacher's best class, or from its whole distribution."""
    threshold: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Leave out examples whose best class has a lower probability than this."""
    student_view: Literal["weak", "strong"] = "weak"
    """Which view of the unlabelled examples the student learns from."""
    optimizer: optim.Optimizer = optim.Optimizer()
    label_smoothing: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Share of each label that is spread evenly over all classes (Table 6: 0.1 on ImageNet)."""
    labeled_weight: Annotated[float, Ge(0)] = 0.0
    """Factor of the student's loss on labelled examples; 0: it learns from pseudo labels alone (Equation 1)."""


class State(NamedTuple):
    """The fixed teacher and the student."""

    teacher: Weights
    student: Learner


def build(config: PseudoLabels, network: Network, steps: int) -> Algorithm:
    """Make the method from its settings."""
    optimizer = optim.build(config.optimizer, steps)
    true_labels = TrueLabels(config.labeled_weight, config.label_smoothing)

    def init(key: Array, views: Views, start: Weights | None) -> State:
        student = learners.create(network, optimizer, key, views.weak)
        # Without a start only the shapes count: a run that is resumed takes both networks from its checkpoint. Settings
        # without a stage before this one are refused.
        return State(student.weights if start is None else start, student)

    def step(state: State, views: Views, key: Array) -> tuple[State, Metrics]:
        teacher, student = state
        teacher_logits, _ = network.apply(teacher.params, teacher.stats, views.weak, train=False)
        probabilities = jax.nn.softmax(teacher_logits)
        targets = jnp.argmax(probabilities, -1) if config.labels == "hard" else probabilities
        mask = confident(probabilities, config.threshold)
        x_u = views.unlabeled_as(config.student_view)

        def loss_fn(params: PyTree) -> tuple[Array, tuple[Array, StudentPass]]:
            shown = true_labels.forward(network, params, student, views, x_u, key)
            costs = cross_entropies(smooth(targets, shown.logits, config.label_smoothing), shown.logits)
            loss = jnp.mean(mask * costs)
            total = loss if shown.labeled_loss is None else loss + config.labeled_weight * shown.labeled_loss
            return total, (loss, shown)

        (_, (loss, shown)), gradient = jax.value_and_grad(loss_fn, has_aux=True)(student.params)
        student = learners.update(student, optimizer, gradient, shown.stats)
        metrics = {
            "student_loss": loss,
            "student_agreement": accuracy(targets, shown.logits),
            "student_gradient_norm": optax.tree.norm(gradient),
            "mask_rate": jnp.mean(mask),
            PSEUDO_LABELS: one_hot_best(teacher_logits),
        }
        if shown.labeled_loss is not None:
            metrics["student_labeled_loss"] = shown.labeled_loss
        return State(teacher, student), metrics

    return Algorithm(
        init, step, lambda state: state.student.weights, Labeler(lambda state: state.teacher, teaches=True)
    )
