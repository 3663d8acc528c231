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
| θ, θ'        | state.student, state.teacher |
| f(·; θ)      | network.apply                |
| λ, α         | config.weight, config.decay  |
| t            | student.updates: 0 at the first step; in α_t, 1 |
| x_l, y_l     | views.labeled, views.labels  |
| η'(x_u), η(x_u) | views.all_weak            |
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

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
class MeanTeacher(MethodConfig):
    """Train on labels and on agreement with a moving average of the network."""

    name: ClassVar[str] = "mean_teacher"
    title: ClassVar[str] = "Mean Teacher"
    weak_views: ClassVar[int] = 2

    weight: Annotated[float, Ge(0)] = 10.0
    """λ: factor of the agreement term after the rise; the authors have 100 divided by the classes on CIFAR-10."""
    ramp_steps: Annotated[int, Ge(0)] = 0
    """Steps over which the factor rises like exp(−5 (1 − t)²); 0: no rise (the authors: 40,000 on CIFAR-10)."""
    decay: Annotated[float, Ge(0), Lt(1)] = 0.99
    """α: share of the teacher's weights that each step keeps, after the first 1 / (1 − α) steps."""
    optimizer: optim.Optimizer = optim.Optimizer()
    label_smoothing: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Share of each true label that is spread evenly over all classes."""

    def check(self) -> None:
        """Refuse a second average."""
        if self.optimizer.average_decay:
            raise ValueError("optimizer.average_decay must be 0: the teacher is the average; set decay instead")


class State(NamedTuple):
    """The student, and the moving average of its weights."""

    student: Learner
    teacher: Weights


def build(config: MeanTeacher, network: Network, steps: int) -> Algorithm:
    """Make the method from its settings."""
    optimizer = optim.build(config.optimizer, steps)

    def init(key: Array, views: Views, start: Weights | None) -> State:
        student = learners.create(network, optimizer, key, views.labeled, start)
        return State(student, student.current)

    def step(state: State, views: Views, key: Array) -> tuple[State, Metrics]:
        student, teacher = state
        teacher_view, student_view = views.all_weak
        student_key, teacher_key = jax.random.split(key)
        t = jnp.asarray(student.updates, views.labeled.dtype)

        # f(x_u, η'; θ')
        teacher_logits, _ = network.apply(teacher.params, teacher.stats, teacher_view, train=True, key=teacher_key)
        targets = jax.nn.softmax(teacher_logits)

        # CE(y_l, f(x_l; θ)) + λ_t J
        def loss(params: PyTree) -> tuple[Array, tuple[Array, Array, Array, PyTree]]:
            inputs = jnp.concatenate([views.labeled, student_view])
            logits, stats = network.apply(params, student.stats, inputs, train=True, key=student_key)
            labeled, unlabeled = jnp.split(logits, [len(views.labeled)])
            supervised = cross_entropy(views.labels, labeled, config.label_smoothing)
            disagreement = jnp.mean((jax.nn.softmax(unlabeled) - targets) ** 2)
            total = supervised + risen(config, t) * disagreement
            return total, (supervised, disagreement, labeled, stats)

        gradient, (supervised, disagreement, labeled, stats) = jax.grad(loss, has_aux=True)(student.params)
        new_student = learners.update(student, optimizer, gradient, stats)

        # θ' = α_t θ' + (1 − α_t) θ, with t from 1
        kept = jnp.minimum(1 - 1 / (t + 2), config.decay)
        new_teacher = optax.incremental_update(new_student.current, teacher, 1 - kept)
        return State(new_student, new_teacher), {
            "loss": supervised,
            "consistency_loss": disagreement,
            "labeled_accuracy": accuracy(views.labels, labeled),
            "gradient_norm": optax.tree.norm(gradient),
            PSEUDO_LABELS: one_hot_best(teacher_logits),
        }

    return Algorithm(init, step, lambda state: state.teacher, Labeler(lambda state: state.teacher, teaches=True))


def risen(config: MeanTeacher, t: Array) -> Array | float:
    """λ_t = λ exp(−5 (1 − min(1, t / ramp_steps))²)."""
    if not config.ramp_steps:
        return config.weight
    return config.weight * jnp.exp(-5 * (1 - jnp.minimum(1.0, t / config.ramp_steps)) ** 2)
