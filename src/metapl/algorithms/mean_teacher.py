"""Mean Teacher (Tarvainen and Valpola, 2017): the student agrees with the moving average of its own weights.

    J    = E ‖ f(x_u, η; θ) − f(x_u, η'; θ') ‖²                       f: probabilities; θ' held fixed
    θ_t  = θ_{t−1} − γ ∇_θ [ CE(y_l, f(x_l; θ)) + λ_t J ]
    θ'_t = α_t θ'_{t−1} + (1 − α_t) θ_t                               α_t = min(1 − 1 / (t + 1), α)
    λ_t  = λ exp(−5 (1 − min(1, t / ramp_steps))²)

η and η' are two weak views, drawn apart, and two dropout masks. ‖·‖² is a mean over classes, as in the authors' code.

Differences from the paper: J is on the unlabelled batch only, not on the labelled one too. The statistics of batch norm
are averaged along with the weights; each network's forward pass normalises with those of its own batch.

| symbol       | name                         |
|--------------|------------------------------|
| θ, θ'        | student.params, student.memory |
| f(·; θ)      | network.apply                |
| λ, α         | config.weight, config.decay  |
| t            | student.updates: 0 at the first step; in α_t, 1 |
| x_l, y_l     | views.labeled, views.labels  |
| η'(x_u), η(x_u) | views.all_weak            |
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import jax
import jax.numpy as jnp
from annotated_types import Ge, Lt

from metapl import optim
from metapl.algorithms.averages import follow_weights
from metapl.algorithms.losses import accuracy, cross_entropy, one_hot_best, risen
from metapl.types import (
    PSEUDO_LABELS,
    Array,
    Labeler,
    Learner,
    LossTerms,
    MethodConfig,
    Network,
    Objective,
    PyTree,
    Views,
    Weights,
)


@dataclass(frozen=True)
class MeanTeacher(MethodConfig):
    """Train on labels and on agreement with a moving average of the network."""

    name: ClassVar[str] = "mean_teacher"
    title: ClassVar[str] = "Mean Teacher"
    weak_views: ClassVar[int] = 2

    weight: Annotated[float, Ge(0)] = 100.0
    """λ: factor of the agreement term after the rise. The authors have 100. On CIFAR-10 their code
    multiplies it by the share of labelled examples and divides the labelled loss by the whole batch, which equals
    100 for means over each batch, as here."""
    ramp_steps: Annotated[int, Ge(0)] = 0
    """Steps over which the factor rises like exp(−5 (1 − t)²); 0: no rise (the authors: 40,000 on CIFAR-10)."""
    decay: Annotated[float, Ge(0), Lt(1)] = 0.999
    """α: share of the teacher's weights that each step keeps, after the first 1 / (1 − α) steps; the authors have 0.99
    during the rise on SVHN."""
    optimizer: optim.Optimizer = optim.Optimizer()
    label_smoothing: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Share of each true label that is spread evenly over all classes."""

    def check(self) -> None:
        """Refuse a second average."""
        if self.optimizer.average_decay:
            raise ValueError("optimizer.average_decay must be 0: the teacher is the average; set decay instead")


def objective(config: MeanTeacher, network: Network, steps: int) -> Objective:
    """CE(y_l, f(x_l; θ)) + λ_t J; the memory is θ'."""
    del steps

    def terms(params: PyTree, student: Learner, views: Views, key: Array) -> LossTerms:
        teacher: Weights = student.memory
        teacher_view, student_view = views.all_weak[:2]
        student_key, teacher_key = jax.random.split(key)

        # f(x_u, η'; θ')
        teacher_logits, _ = network.apply(teacher.params, teacher.stats, teacher_view, train=True, key=teacher_key)
        targets = jax.nn.softmax(teacher_logits)

        # CE(y_l, f(x_l; θ)) + λ_t J
        inputs = jnp.concatenate([views.labeled, student_view])
        logits, stats = network.apply(params, student.stats, inputs, train=True, key=student_key)
        labeled, unlabeled = jnp.split(logits, [len(views.labeled)])
        supervised = cross_entropy(views.labels, labeled, config.label_smoothing)
        disagreement = jnp.mean((jax.nn.softmax(unlabeled) - targets) ** 2)
        metrics = {
            "loss": supervised,
            "consistency_loss": disagreement,
            "labeled_accuracy": accuracy(views.labels, labeled),
            PSEUDO_LABELS: one_hot_best(teacher_logits),
        }
        factor = risen(config.weight, student.updates, config.ramp_steps, disagreement.dtype)
        return LossTerms(supervised, stats, metrics, factor * disagreement, memory=teacher)

    labeler = Labeler(lambda student: student.memory, teaches=True)
    follow = follow_weights(config.decay)
    return Objective(terms, lambda student, *_: student.current, follow, lambda student: student.memory, labeler)
