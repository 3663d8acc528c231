"""Meta Pseudo Labels (Section 2; Algorithm 1 of Appendix B).

    ŷ_u  ~ T(x_u; θ_T)
    θ_S' = θ_S − η_S ∇_{θ_S} CE(ŷ_u, S(x_u; θ_S))
    h    = η_S ⟨∇_{θ_S'} CE(y_l, S(x_l; θ_S')), ∇_{θ_S} CE(ŷ_u, S(x_u; θ_S))⟩       (see feedback.py)
    g_T  = h ∇_{θ_T} CE(ŷ_u, T(x_u; θ_T))
         + ∇_{θ_T} CE(y_l, T(x_l; θ_T))
         + λ ∇_{θ_T} CE(StopGradient(T(x_u; θ_T)^(1/τ)), T(RandAugment(x_u); θ_T))
    θ_T' = θ_T − η_T g_T

The last two terms of g_T are the teacher's own method: UDA as above, another of Table 10, or with `own` any method in
the table `OBJECTIVES`, with its memory if it has one. Its file has the loss.

| the teacher's own method | settings                                                              | alone        |
|--------------------------|-----------------------------------------------------------------------|--------------|
| supervised               | `consistency.weight = 0`, the default                                 | `supervised` |
| RandAugment              | `labeled_view = "strong"`                                             | `supervised` |
| Mixup                    | `mixup = 1.0`, or another α                                           | `supervised` |
| Pseudo Labels, its own   | `consistency = {weight = 1.0, labels = "hard", view = "weak", threshold = 0.95}` | `uda` |
| UDA                      | `consistency.weight = 1.0`, or another λ                              | `uda`        |
| FixMatch (not the paper's) | `consistency = {weight = 1.0, labels = "hard", threshold = 0.95}`   | `fixmatch`   |
| any other                | `own = {name = "mean_teacher", weight = 10.0}`                        | that method  |

The labels that train the student are the labels credited to the teacher. Only the student is evaluated.

Table 8's label smoothing α is common to both networks: the teacher's CE(y_l, ·) and the student's CE(ŷ_u, ·) take
(1 − α) q + α / C for q, as in the released code. It is part of the student's loss, not of the label: ŷ_u stays the
sample, and the teacher is credited for log T(ŷ_u), since α / C is no choice of the teacher's. In the feedback it is a
factor 1 − α and a shift that all labels share; the estimators have both, exactly. CE(y_l, S(x_l; θ_S')) stays
unsmoothed: it is Equation 3's objective, how the student does on true labels, and no network is trained on it.

Without feedback the teacher is, bit for bit, what its own method alone makes of the same seed: it gets the keys that
`init` and `step` were given, and passes labelled views alone (supervised) or with the others (UDA) as that does.

A student that waits (`student_wait_steps`, as in the released code) does not change, so there is no feedback: until it
begins, the teacher gets no credit and the baseline stays. Its warm-up and its schedule begin when it does.

| symbol           | name                          |
|------------------|-------------------------------|
| T, θ_T / S, θ_S  | state.teacher / state.student |
| x_l, y_l         | views.labeled, views.labels   |
| x_u              | views.weak; what T labels: `teacher_view`; what S learns from: `student_view` |
| RandAugment(x_u) | views.strong                  |
| T(x_u; θ_T)      | teacher_logits                |
| ŷ_u (or T(x_u))  | targets                       |
| h                | estimate.h; with the baseline and its weight: credit |
| λ, τ             | config.consistency            |
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from annotated_types import Ge, Lt

from metapl import optim
from metapl.algorithms import feedback as feedbacks
from metapl.algorithms import feedback_scale as scales
from metapl.algorithms import learner as learners
from metapl.algorithms.balance import LogitAdjustment
from metapl.algorithms.feedback import Feedback, StudentUpdate
from metapl.algorithms.losses import accuracy, cross_entropy
from metapl.algorithms.objectives import OBJECTIVES
from metapl.algorithms.sample_labels import sample_labels
from metapl.algorithms.supervised import Supervised
from metapl.algorithms.uda import UDA, Cap, Consistency, Passes
from metapl.schema import ConfigError
from metapl.types import (
    PSEUDO_LABELS,
    Algorithm,
    Array,
    Labeler,
    Learner,
    LossTerms,
    MethodConfig,
    Metrics,
    Network,
    Objective,
    PyTree,
    Views,
    Weights,
)


@dataclass(frozen=True)
class MPL(MethodConfig):
    """Train a teacher and a student together; the teacher learns from how the student then does."""

    name: ClassVar[str] = "mpl"
    title: ClassVar[str] = "MPL"
    moved: ClassVar[dict[str, str]] = {"consistency.labeled_cap": "labeled_cap", "consistency.passes": "passes"}

    feedback: Feedback = Feedback()
    labels: Literal["hard", "soft"] = "hard"
    """Sample one label for each example from the teacher, or pass on its whole distribution."""
    teacher_view: Literal["weak", "strong"] = "weak"
    """Which view of the unlabelled examples the teacher labels and gets credit for (released code: strong)."""
    student_view: Literal["weak", "strong"] = "weak"
    """Which view of the unlabelled examples the student learns from."""
    supervised_weight: Annotated[float, Ge(0)] = 1.0
    """Factor of the teacher's own loss on labelled examples; 0: it learns from the feedback only."""
    labeled_view: Literal["weak", "strong"] = "weak"
    """Which view of the labelled examples the teacher's own loss is on; the feedback always uses the weak one."""
    mixup: Annotated[float, Ge(0)] = 0.0
    """α of Mixup in the teacher's own loss on labelled examples; 0 mixes nothing."""
    consistency: Consistency = Consistency(weight=0.0)
    """The teacher's UDA term; weight 0 leaves it out."""
    own: MethodConfig | None = None
    """The teacher's own method, by its name, with its settings but for the optimizer; none: what `consistency`, `mixup`
    and `labeled_view` say. `label_smoothing` is then for the student only; set the teacher's here."""
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
    """fresh: the student starts from random weights of its own, as in the paper; teacher: from the weights that the
    previous stage gave to the teacher, if there is one; it then needs fewer steps."""
    logit_adjustment: LogitAdjustment = LogitAdjustment()
    """Adjust logits in the teacher's own loss on labelled examples; it then labels as if classes had equal sizes."""

    labeled_cap: Cap = "none"
    """As UDA's: leave out labelled examples that the teacher is surer of than a rising cap; for a UDA teacher only."""
    passes: Passes = "one"
    """As UDA's: show the teacher all views at once, or each in a pass of its own; for a UDA teacher only."""

    def check(self) -> None:
        """Check fields against each other."""
        if self.labeled_cap != "none" and (self.mixup or not self.consistency.weight):
            raise ValueError("labeled_cap needs a consistency.weight above 0, and a mixup of 0")
        feedbacks.check_labels(self.feedback, self.labels)
        if self.own is not None:
            check_own(self, self.own)

    @property
    def pieces(self) -> tuple[MethodConfig, ...]:
        """Return this method and the teacher's own."""
        return (self,) if self.own is None else (self, self.own)


TEACHERS = ("consistency", "mixup", "labeled_view", "labeled_cap", "passes", "logit_adjustment")


def check_own(config: MPL, own: MethodConfig) -> None:
    """Refuse an own method that is no objective, and settings that nothing would apply."""
    if type(own) not in OBJECTIVES:
        names = ", ".join(kind.name for kind in OBJECTIVES)
        raise ValueError(f"own.name takes a method that trains one network ({names}), got {own.name!r}")
    if own.optimizer != optim.Optimizer():  # type: ignore[attr-defined]
        raise ValueError("own.optimizer is not used: the teacher's optimizer is `teacher`; leave it out of own")
    if set_twice := [name for name in TEACHERS if getattr(config, name) != getattr(MPL, name)]:
        raise ValueError(f"{' and '.join(set_twice)}: the teacher's own method is {own.name}; set it in own")


class State(NamedTuple):
    """Both networks and the moving averages of the feedback."""

    teacher: Learner
    student: Learner
    baseline: Array  # of h
    balance: scales.Balance | None = None  # None if `feedback.scale` needs none


class Setup(NamedTuple):
    """What `step` is made of."""

    config: MPL
    teacher_network: Network
    student_network: Network
    teacher_optimizer: optim.Descent
    student_optimizer: optim.Descent
    own: Objective  # of the teacher


def build(config: MPL, network: Network, steps: int) -> Algorithm:
    """Make the method from its settings."""
    if config.student_wait_steps >= steps:
        raise ConfigError(
            f"student_wait_steps ({config.student_wait_steps}) must be fewer than the stage's {steps} steps"
        )
    teacher_optimizer = optim.build(config.teacher, steps)
    student_optimizer = optim.build(config.student, steps - config.student_wait_steps)
    teacher_network, student_network = (
        learners.holding(network if rate is None else network.with_dropout(rate), optimizer)
        for rate, optimizer in (
            (config.teacher_dropout, teacher_optimizer),
            (config.student_dropout, student_optimizer),
        )
    )
    own = own_method(config, teacher_network, steps)
    setup = Setup(config, teacher_network, student_network, teacher_optimizer, student_optimizer, own)

    def init(key: Array, views: Views, start: Weights | None) -> State:
        teacher = learners.create(network, teacher_optimizer, key, views.labeled, start)
        teacher = learners.begin(own, teacher, views, key)
        student_start = start if config.student_start == "teacher" else None
        student = learners.create(network, student_optimizer, jax.random.fold_in(key, 1), views.weak, student_start)
        dtype = views.weak.dtype
        return State(teacher, student, jnp.zeros((), dtype), scales.start(config.feedback, dtype))

    labeler = Labeler(lambda state: state.teacher.current, teaches=True)
    return Algorithm(init, partial(step, setup), lambda state: state.student.weights, labeler)


def own_method(config: MPL, network: Network, steps: int) -> Objective:
    """Return the teacher's own method: `own`, or else UDA, or supervised learning if consistency.weight is 0."""
    method = config.own or method_of_fields(config)
    return OBJECTIVES[type(method)](method, network, steps)


def method_of_fields(config: MPL) -> MethodConfig:
    """Return the own method that `consistency`, `mixup` and `labeled_view` describe."""
    if not config.consistency.weight:
        return Supervised(
            label_smoothing=config.label_smoothing,
            view=config.labeled_view,
            mixup=config.mixup,
            logit_adjustment=config.logit_adjustment,
        )
    return UDA(
        config.consistency,
        label_smoothing=config.label_smoothing,
        labeled_cap=config.labeled_cap,
        passes=config.passes,
        labeled_view=config.labeled_view,
        mixup=config.mixup,
        logit_adjustment=config.logit_adjustment,
    )


def step(setup: Setup, state: State, views: Views, key: Array) -> tuple[State, Metrics]:
    """Take one step of Algorithm 1."""
    config, (teacher, student, baseline, balance) = setup.config, state
    teacher_key, sample_key, student_key, labeled_key = jax.random.split(key, 4)

    # T(x_u; θ_T) and the teacher's own losses: forward now; the backward pass waits for the feedback.
    def teach(params: PyTree) -> tuple[tuple[Array, Array], LossTerms]:
        own = setup.own.loss(params, teacher, views, key)
        own_loss = config.supervised_weight * own.labeled + own.unlabeled
        return (own_loss, logits_to_label(setup, params, teacher, own, views, teacher_key)), own

    (own_loss, teacher_logits), teacher_backward, own = jax.vjp(teach, teacher.params, has_aux=True)

    # ŷ_u ~ T(x_u; θ_T)
    targets = sample_labels(config.labels, sample_key, teacher_logits)

    # θ_S' = θ_S − η_S g,  g = ∇_{θ_S} CE(ŷ_u, S(x_u; θ_S))
    def unlabeled_loss(params: PyTree) -> tuple[Array, tuple[Array, PyTree]]:
        x_u = views.unlabeled_as(config.student_view)
        logits, stats = setup.student_network.apply(params, student.stats, x_u, train=True, key=student_key)
        return cross_entropy(targets, logits, config.label_smoothing), (logits, stats)

    (student_loss, (student_logits, student_stats)), g = jax.value_and_grad(unlabeled_loss, has_aux=True)(
        student.params
    )
    new_student = learners.update(student, setup.student_optimizer, g, student_stats)

    # h = η_S ⟨∇_{θ_S'} CE(y_l, S(x_l; θ_S')), g⟩
    def labeled_loss(params: PyTree) -> tuple[Array, Array]:
        logits, _ = setup.student_network.apply(params, student.stats, views.labeled, train=True, key=labeled_key)
        return cross_entropy(views.labels, logits), logits

    update = StudentUpdate(
        params=student.params,
        new_params=new_student.params,
        gradient=g,
        moved=partial(learners.moved, student, setup.student_optimizer, g),
        descend=learners.descend(student, setup.student_optimizer, g),
        labeled_loss=labeled_loss,
        unlabeled_logits=lambda params: unlabeled_loss(params)[1][0],
        smoothing=config.label_smoothing,
        key=jax.random.fold_in(labeled_key, 1),
    )
    estimate = feedbacks.estimate(config.feedback, update)
    credit = feedbacks.credit(config.feedback, estimate, baseline, targets)
    new_baseline = feedbacks.next_baseline(config.feedback, estimate.h, baseline, targets)
    if config.student_wait_steps:
        credit = jnp.where(teacher.updates >= config.student_wait_steps, credit, 0)

    # θ_T' = θ_T − η_T g_T,  g_T = h ∇_{θ_T} CE(ŷ_u, T(x_u; θ_T)) + ∇_{θ_T} [the teacher's own losses]
    g_logits = jax.grad(lambda logits: jnp.sum(credit * -jax.nn.log_softmax(logits)))(teacher_logits)
    g_teacher, new_balance = scales.teacher_gradient(config.feedback, balance, teacher_backward, own_loss, g_logits)
    new_teacher = learners.update(teacher, setup.teacher_optimizer, g_teacher, own.stats)
    new_teacher = learners.follow(setup.own, new_teacher, own)

    metrics = teacher_metrics(own) | feedbacks.metrics(estimate, targets, views.labels)
    metrics |= {"student_loss": student_loss, "student_agreement": accuracy(targets, student_logits)}
    metrics |= {"student_gradient_norm": optax.tree.norm(g), "teacher_gradient_norm": optax.tree.norm(g_teacher)}
    metrics |= {"baseline": baseline, PSEUDO_LABELS: targets}
    return after_waiting(config, state, State(new_teacher, new_student, new_baseline, new_balance)), metrics


def after_waiting(config: MPL, old: State, new: State) -> State:
    """Return the new state; until the student begins, only the teacher changes."""
    if not config.student_wait_steps:
        return new
    begun = old.teacher.updates >= config.student_wait_steps
    return jax.tree.map(partial(jnp.where, begun), new, old._replace(teacher=new.teacher))


def logits_to_label(setup: Setup, params: PyTree, teacher: Learner, own: LossTerms, views: Views, key: Array) -> Array:
    """T(x_u; θ_T): as the teacher's own method has passed x_u, or in a pass of its own if that method does not.

    The statistics of a pass of its own are not kept: they stay, bit for bit, those of the own method. Without feedback
    no credit flows into the logits; a backward pass of zeros would be work, and give other bits.
    """
    logits = own.logits_of(setup.config.teacher_view)
    if logits is None:
        x_u = views.unlabeled_as(setup.config.teacher_view)
        logits, _ = setup.teacher_network.apply(params, teacher.stats, x_u, train=True, key=key)
    return jax.lax.stop_gradient(logits) if setup.config.feedback.estimator == "none" else logits


def teacher_metrics(own: LossTerms) -> Metrics:
    """Return the metrics of the teacher's own method under the names that they have beside the student's."""
    names = {"loss": "teacher_loss", "labeled_accuracy": "teacher_labeled_accuracy"}
    return {names.get(name, name): value for name, value in own.metrics.items()}
