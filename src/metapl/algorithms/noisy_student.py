"""Noisy Student (Xie et al. 2020; the baseline of Appendix E): a noised, fresh student learns true and pseudo labels.

    q    = T(x_u)                        soft labels, or
    q    = argmax T(x_u)                 hard labels
    θ_S' = θ_S − η_S ∇_{θ_S} [ w CE(y_l, S(x_l; θ_S)) + λ CE(q, S(RandAugment(x_u); θ_S)) ]

T is the network that the stage before trained; it predicts for all examples, without noise, before the student is made.
Only the student gets noise: the strong view, and the network's own dropout and stochastic depth. `keep` says which of
the unlabelled examples are learnt from, and how often. A round is a stage; another such stage after it is the next
round, with this student as its teacher. `Stage.model` makes the next student larger.

Billion-scale SSL (Yalniz et al., 2019) is a teacher, this stage with w = 0, hard labels and `keep.per_class`, and
finetuning on labels.

Both terms are means. A mean over labelled and unlabelled examples together is λ = U / B, with (B + U) / B times the
learning rate for the same step.

| symbol           | name                        |
|------------------|-----------------------------|
| T(x_u)           | views.predictions           |
| S(·; θ_S)        | network.apply               |
| x_l, y_l         | views.labeled, views.labels |
| RandAugment(x_u) | views.strong                |
| w, λ             | config.labeled_weight, config.unlabeled_weight |
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import optax
from annotated_types import Ge, Lt

from metapl import optim
from metapl.algorithms import learner as learners
from metapl.algorithms.losses import accuracy, cross_entropy, one_hot_best
from metapl.types import (
    PSEUDO_LABELS,
    Algorithm,
    Array,
    Learner,
    Metrics,
    Network,
    PyTree,
    StoredPredictionsConfig,
    Views,
    Weights,
)


@dataclass(frozen=True)
class NoisyStudent(StoredPredictionsConfig):
    """Train a fresh student on true labels and on the stage before's predictions for the unlabelled examples."""

    name: ClassVar[str] = "noisy_student"
    title: ClassVar[str] = "Noisy Student"

    labels: Literal["soft", "hard"] = "soft"
    """Learn from the teacher's whole distribution, or from its best class."""
    unlabeled_weight: Annotated[float, Ge(0)] = 1.0
    """Factor of the loss on unlabelled examples."""
    labeled_weight: Annotated[float, Ge(0)] = 1.0
    """Factor of the loss on labelled examples; 0: the student learns pseudo labels alone, as in Billion-scale SSL. The
    labelled examples still pass the network with the others."""
    student_view: Literal["weak", "strong"] = "strong"
    """Which view of the unlabelled examples the student learns from."""
    label_smoothing: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Share of each true label that is spread evenly over all classes."""
    optimizer: optim.Optimizer = optim.Optimizer()


def build(config: NoisyStudent, network: Network, steps: int) -> Algorithm:
    """Make the method from its settings."""
    optimizer = optim.build(config.optimizer, steps)

    def init(key: Array, views: Views, start: Weights | None) -> Learner:
        del start  # the teacher's weights: the student begins afresh
        return learners.create(network, optimizer, key, views.labeled)

    def step(student: Learner, views: Views, key: Array) -> tuple[Learner, Metrics]:
        assert views.predictions is not None  # the loop gives them to methods that declare uses_stored_predictions
        guesses = jnp.argmax(views.predictions, axis=-1)
        targets = guesses if config.labels == "hard" else views.predictions
        x_u = views.unlabeled_as(config.student_view)

        def loss_fn(params: PyTree) -> tuple[Array, Any]:
            inputs = jnp.concatenate([views.labeled, x_u])
            logits, stats = network.apply(params, student.stats, inputs, train=True, key=key)
            labeled, unlabeled = jnp.split(logits, [len(views.labeled)])
            true = cross_entropy(views.labels, labeled, config.label_smoothing)
            given = cross_entropy(targets, unlabeled)
            return config.labeled_weight * true + config.unlabeled_weight * given, (
                true,
                given,
                labeled,
                unlabeled,
                stats,
            )

        (_, (true, given, labeled, unlabeled, stats)), gradient = jax.value_and_grad(loss_fn, has_aux=True)(
            student.params
        )
        return learners.update(student, optimizer, gradient, stats), {
            "loss": true,
            "unlabeled_loss": given,
            "labeled_accuracy": accuracy(views.labels, labeled),
            "student_agreement": accuracy(guesses, unlabeled),
            "gradient_norm": optax.tree.norm(gradient),
            PSEUDO_LABELS: one_hot_best(views.predictions),
        }

    return Algorithm(init, step, lambda student: student.weights)
