"""Reduced Meta Pseudo Labels (Appendix E): a small perceptron T' between a large, fixed teacher T and the student.

    p    = T(x)                                     computed once for all examples; then T is freed
    ŷ_u  ~ T'(p_u; θ_T')
    θ_S' = θ_S − η_S ∇_{θ_S} CE(ŷ_u, S(x_u; θ_S))
    h    = η_S ⟨∇_{θ_S'} CE(y_l, S(x_l; θ_S')), ∇_{θ_S} CE(ŷ_u, S(x_u; θ_S))⟩       (see feedback.py)
    g_T' = h ∇_{θ_T'} CE(ŷ_u, T'(p_u; θ_T')) + w ∇_{θ_T'} CE(y_l, T'(p_l; θ_T'))
    θ_T' = θ_T' − η_T g_T'

It is Meta Pseudo Labels with T'(T(·)) for the teacher: only one large network, the student, is in memory.

What the paper leaves open, and what is done here:
- The paper does not mention a loss of T' beside the feedback. We keep MPL's: CE on labelled examples. T has learnt
  these by heart, so p_l is close to y_l: the term holds T' near the identity, and says little about where T is wrong.
- The paper does not say where T' starts. With `residual` it starts as the identity; a random start is a setting. On
  digits both end alike (84.1 and 84.3 ± 1.3 %, docs/results.md).
- T sees the eval view, once. Only the student gets noise.
- The paper calls the adapting teacher "the only difference" to Noisy Student, yet MPL's student sees no true label and
  Noisy Student's does. The student here is MPL's by default; a finetuning stage after it shows it the labels. With
  `labeled_weight` w_S its update also has w_S ∇_{θ_S} CE(y_l, S(x_l; θ_S)), as Noisy Student's. The feedback stays that
  of ŷ_u: g in feedback.py is the pseudo labels' gradient alone. Only `finite_difference` sees what the true labels do,
  too; that does not depend on ŷ_u, and the baseline removes its mean.

| symbol            | name                                             |
|-------------------|--------------------------------------------------|
| p_u, p_l          | views.predictions, views.labeled_predictions |
| T', θ_T' / S, θ_S | state.teacher / state.student                    |
| x_l, y_l          | views.labeled, views.labels                      |
| x_u               | views.strong or views.weak                       |
| ŷ_u (or T'(p_u))  | targets                                          |
| w                 | config.supervised_weight                         |
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from annotated_types import Ge, Lt

from metapl import models, optim
from metapl.algorithms import feedback as feedbacks
from metapl.algorithms import feedback_scale as scales
from metapl.algorithms import learner as learners
from metapl.algorithms.feedback import Feedback, StudentUpdate
from metapl.algorithms.losses import accuracy, cross_entropy
from metapl.algorithms.sample_labels import sample_labels
from metapl.algorithms.true_labels import StudentPass, TrueLabels
from metapl.models.reduced_teacher import ReducedTeacher
from metapl.types import (
    PSEUDO_LABELS,
    Algorithm,
    Array,
    Labeler,
    Learner,
    Metric,
    Metrics,
    Network,
    PyTree,
    StoredPredictionsConfig,
    Views,
    Weights,
)

KEPT = Metric(
    "teacher_kept_answers",
    "share of unlabelled examples for which the corrector keeps the large teacher's best class",
    "share",
    "teacher",
)


@dataclass(frozen=True)
class ReducedMPL(StoredPredictionsConfig):
    """Train a student and a small corrector of stored predictions, which learns from how the student does."""

    name: ClassVar[str] = "reduced_mpl"
    title: ClassVar[str] = "Reduced MPL"
    metrics: ClassVar[tuple[Metric, ...]] = (KEPT,)

    hidden: Annotated[int, Ge(1)] = 128
    """Units of each hidden layer of the corrector T'; the paper has 512 for ImageNet."""
    layers: Annotated[int, Ge(1)] = 5
    """Layers of T' with weights, the last one included."""
    residual: bool = True
    """T' starts as the identity and learns corrections; otherwise it starts with random predictions."""
    feedback: Feedback = Feedback()
    labels: Literal["hard", "soft"] = "hard"
    """Sample one label for each example from T', or pass on its whole distribution."""
    student_view: Literal["weak", "strong"] = "strong"
    """Which view of the unlabelled examples the student learns from."""
    supervised_weight: Annotated[float, Ge(0)] = 1.0
    """Factor of the loss of T' on labelled examples; 0: it learns from the feedback only."""
    labeled_weight: Annotated[float, Ge(0)] = 0.0
    """Factor of the student's loss on true labels (Noisy Student: 1); 0: it learns from pseudo labels alone."""
    label_smoothing: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Share of the labels of T' and of the student, true or pseudo, that is spread evenly over all classes."""
    teacher: optim.Optimizer = optim.Optimizer()
    student: optim.Optimizer = optim.Optimizer()

    def check(self) -> None:
        """Refuse an estimator that is wrong for the labels."""
        feedbacks.check_labels(self.feedback, self.labels)


class State(NamedTuple):
    """The corrector T', the student and the moving averages of the feedback."""

    teacher: Learner
    student: Learner
    baseline: Array  # of h
    balance: scales.Balance | None = None  # None if `feedback.scale` needs none


class Setup(NamedTuple):
    """What `step` is made of."""

    config: ReducedMPL
    student_network: Network
    teacher_optimizer: optim.Descent
    student_optimizer: optim.Descent


def build(config: ReducedMPL, network: Network, steps: int) -> Algorithm:
    """Make the method from its settings."""
    setup = Setup(config, network, optim.build(config.teacher, steps), optim.build(config.student, steps))

    def init(key: Array, views: Views, start: Weights | None) -> State:
        del start  # the large teacher's weights: only its stored predictions are used
        p_u, _ = stored(views)
        teacher = learners.create(corrector_for(config, p_u), setup.teacher_optimizer, key, p_u)
        student = learners.create(network, setup.student_optimizer, jax.random.fold_in(key, 1), views.weak)
        dtype = views.weak.dtype
        return State(teacher, student, jnp.zeros((), dtype), scales.start(config.feedback, dtype))

    labeler = Labeler(lambda state: state.teacher.current, teaches=True, corrector=corrector_of_any_classes(config))
    return Algorithm(init, partial(step, setup), lambda state: state.student.weights, labeler)


def step(setup: Setup, state: State, views: Views, key: Array) -> tuple[State, Metrics]:
    """Take one step of Algorithm 1, with T' for the teacher."""
    config, (teacher, student, baseline, balance) = setup.config, state
    sample_key, student_key, labeled_key = jax.random.split(key, 3)
    p_u, p_l = stored(views)
    corrector = corrector_for(config, p_u)

    # T'(p_u; θ_T') and w CE(y_l, T'(p_l; θ_T')): forward now; the backward pass waits for the feedback.
    def teach(params: PyTree) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        labeled, _ = corrector.apply(params, teacher.stats, p_l, train=True)
        unlabeled, _ = corrector.apply(params, teacher.stats, p_u, train=True)
        supervised = cross_entropy(views.labels, labeled, config.label_smoothing)
        return (config.supervised_weight * supervised, unlabeled), (supervised, labeled)

    (own_loss, teacher_logits), teacher_backward, (supervised, labeled) = jax.vjp(teach, teacher.params, has_aux=True)

    # ŷ_u ~ T'(p_u; θ_T')
    targets = sample_labels(config.labels, sample_key, teacher_logits)

    # θ_S' = θ_S − η_S g,  g = ∇_{θ_S} CE(ŷ_u, S(x_u; θ_S))
    def unlabeled_loss(params: PyTree) -> tuple[Array, StudentPass]:
        shown = student_pass(setup, params, student, views, student_key)
        return cross_entropy(targets, shown.logits, config.label_smoothing), shown

    (student_loss, shown), g = jax.value_and_grad(unlabeled_loss, has_aux=True)(student.params)
    whole_g = with_true_labels(setup, g, student, views, student_key)
    new_student = learners.update(student, setup.student_optimizer, whole_g, shown.stats)

    # h = η_S ⟨∇_{θ_S'} CE(y_l, S(x_l; θ_S')), g⟩
    def labeled_loss(params: PyTree) -> tuple[Array, Array]:
        logits, _ = setup.student_network.apply(params, student.stats, views.labeled, train=True, key=labeled_key)
        return cross_entropy(views.labels, logits), logits

    update = StudentUpdate(
        params=student.params,
        new_params=new_student.params,
        gradient=g,
        descend=learners.descend(student, setup.student_optimizer, whole_g),
        labeled_loss=labeled_loss,
        unlabeled_logits=lambda params: unlabeled_loss(params)[1].logits,
        smoothing=config.label_smoothing,
        moved=partial(learners.moved, student, setup.student_optimizer, g, whole_g),
        key=jax.random.fold_in(labeled_key, 1),
    )
    estimate = feedbacks.estimate(config.feedback, update)
    credit = feedbacks.credit(config.feedback, estimate, baseline, targets)
    new_baseline = feedbacks.next_baseline(config.feedback, estimate.h, baseline, targets)

    # θ_T' = θ_T' − η_T g_T',  g_T' = h ∇_{θ_T'} CE(ŷ_u, T'(p_u; θ_T')) + w ∇_{θ_T'} CE(y_l, T'(p_l; θ_T'))
    g_logits = jax.grad(lambda logits: jnp.sum(credit * -jax.nn.log_softmax(logits)))(teacher_logits)
    g_teacher, new_balance = scales.teacher_gradient(config.feedback, balance, teacher_backward, own_loss, g_logits)
    new_teacher = learners.update(teacher, setup.teacher_optimizer, g_teacher, teacher.stats)

    metrics = feedbacks.metrics(estimate, targets, views.labels)
    metrics |= {"teacher_loss": supervised, "teacher_labeled_accuracy": accuracy(views.labels, labeled)}
    metrics |= {KEPT.name: accuracy(jnp.argmax(p_u, axis=-1), teacher_logits)}
    metrics |= student_metrics(student_loss, shown, targets)
    metrics |= {"student_gradient_norm": optax.tree.norm(whole_g), "teacher_gradient_norm": optax.tree.norm(g_teacher)}
    metrics |= {"baseline": baseline, PSEUDO_LABELS: targets}
    return State(new_teacher, new_student, new_baseline, new_balance), metrics


def student_metrics(loss: Array, shown: StudentPass, targets: Array) -> Metrics:
    """Return the student's losses, and how often it agrees with its labels."""
    metrics = {"student_loss": loss, "student_agreement": accuracy(targets, shown.logits)}
    return metrics if shown.labeled_loss is None else metrics | {"student_labeled_loss": shown.labeled_loss}


def student_pass(setup: Setup, params: PyTree, student: Learner, views: Views, key: Array) -> StudentPass:
    """Pass what the student learns from: x_u, and x_l in the same batch if it learns true labels."""
    true_labels = TrueLabels(setup.config.labeled_weight, setup.config.label_smoothing)
    x_u = views.unlabeled_as(setup.config.student_view)
    return true_labels.forward(setup.student_network, params, student, views, x_u, key)


def with_true_labels(setup: Setup, g: PyTree, student: Learner, views: Views, key: Array) -> PyTree:
    """g + w_S ∇_{θ_S} CE(y_l, S(x_l; θ_S)), in the pass that gave g; without a weight, g itself."""
    if not setup.config.labeled_weight:
        return g

    def labeled_loss(params: PyTree) -> Array:
        loss = student_pass(setup, params, student, views, key).labeled_loss
        assert loss is not None  # the weight is above 0
        return loss

    return optax.tree.add_scale(g, setup.config.labeled_weight, jax.grad(labeled_loss)(student.params))


def stored(views: Views) -> tuple[Array, Array]:
    """Return p_u and p_l."""
    assert views.predictions is not None  # the loop gives both to methods that declare uses_stored_predictions
    assert views.labeled_predictions is not None
    return views.predictions, views.labeled_predictions


def corrector_for(config: ReducedMPL, predictions: Array) -> Network:
    """Return T', for as many classes as the predictions have."""
    settings = ReducedTeacher(config.hidden, config.layers, config.residual)
    return models.build(settings, predictions.shape[-1])


def corrector_of_any_classes(config: ReducedMPL) -> Network:
    """Return T' for those who only apply it: it takes the number of classes from its inputs."""

    def apply(
        params: PyTree, stats: PyTree, inputs: Array, *, train: bool, key: Array | None = None
    ) -> tuple[Array, PyTree]:
        return corrector_for(config, inputs).apply(params, stats, inputs, train=train, key=key)

    def init(key: Array, inputs: Array) -> Weights:
        return corrector_for(config, inputs).init(key, inputs)

    return Network(init, apply, with_dropout=lambda rate: corrector_of_any_classes(config))
