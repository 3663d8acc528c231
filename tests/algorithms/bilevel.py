"""A small instance of the paper's bilevel problem, whole enough to differentiate through and to enumerate."""

import itertools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import optax
import pytest

from metapl import models, optim
from metapl.algorithms import mpl
from metapl.algorithms.feedback import Feedback
from metapl.models.mlp import MLP
from metapl.types import Array, Learner, PyTree, Views

CLASSES = 3


@dataclass(frozen=True)
class Problem:
    """Teacher, student, one labelled and one unlabelled batch, in double precision."""

    views: Views
    teacher: PyTree
    student: Learner
    network: object
    optimizer: optim.Optimizer
    smoothing: float = 0.0

    def teacher_log_probs(self, teacher: PyTree) -> Array:
        return jax.nn.log_softmax(self.network.apply(teacher, {}, self.views.weak, train=False)[0])

    def labeled_loss(self, student: PyTree) -> Array:
        """CE(y_l, S(x_l; θ_S)), written out."""
        log_probs = jax.nn.log_softmax(self.network.apply(student, {}, self.views.labeled, train=False)[0])
        return -jnp.mean(log_probs[jnp.arange(len(self.views.labels)), self.views.labels])

    def student_gradient(self, targets: Array) -> PyTree:
        """∇_{θ_S} CE(q, S(x_u; θ_S)), written out."""
        targets = (1 - self.smoothing) * targets + self.smoothing / CLASSES

        def loss(student: PyTree) -> Array:
            log_probs = jax.nn.log_softmax(self.network.apply(student, {}, self.views.weak, train=False)[0])
            return -jnp.mean(jnp.sum(targets * log_probs, axis=-1))

        return jax.grad(loss)(self.student.params)

    def updated_student(self, targets: Array) -> PyTree:
        """θ_S' after one update by the optimizer."""
        transform = optim.build(self.optimizer, total_steps=10)
        updates, _ = transform.update(self.student_gradient(targets), self.student.opt_state, self.student.params)
        return optax.apply_updates(self.student.params, updates)

    def assignments(self) -> Array:
        """Every way to label the unlabelled batch, one-hot: [CLASSES^U, U, CLASSES]."""
        ways = itertools.product(range(CLASSES), repeat=len(self.views.weak))
        return jax.nn.one_hot(jnp.array(list(ways)), CLASSES, dtype=jnp.float64)

    def probability(self, teacher: PyTree, targets: Array) -> Array:
        """P(ŷ; θ_T): one joint sample."""
        return jnp.exp(jnp.sum(targets * self.teacher_log_probs(teacher)))


def make_problem(
    optimizer: optim.Optimizer, seed: int | Array = 0, unlabeled: int = 3, smoothing: float = 0.0
) -> Problem:
    """Random data and weights, traceable: a test may map over rates or seeds.

    The student's optimizer has already seen one gradient, so that its momentum is not zero.
    """
    keys = jax.random.split(jax.random.key(seed), 7)
    x_l, x_u = jax.random.normal(keys[0], (4, 2)), jax.random.normal(keys[1], (unlabeled, 2))
    views = Views(x_l, jax.random.randint(keys[2], (4,), 0, CLASSES), x_u, x_u)
    network = models.build(MLP(hidden=(4,), init_range=1.5), CLASSES)
    shape = x_l.astype(jnp.float32)
    teacher, student = network.init(keys[3], shape).params, network.init(keys[4], shape).params
    teacher, student = (jax.tree.map(lambda leaf: leaf.astype(jnp.float64), net) for net in (teacher, student))
    transform = optim.build(optimizer, total_steps=10)
    noise = jax.tree.map(lambda leaf: jax.random.normal(keys[5], leaf.shape), student)
    _, opt_state = transform.update(noise, transform.init(student), student)
    return Problem(views, teacher, Learner(student, {}, opt_state), network, optimizer, smoothing)


def teacher_gradient(
    problem: Problem,
    monkeypatch: pytest.MonkeyPatch,
    feedback: Feedback,
    targets: Array | None = None,
    baseline: float = 0,
) -> tuple[PyTree, dict[str, Array]]:
    """∇_{θ_T} as the package's own step has it: the teacher descends the feedback alone, at rate 1.

    `targets` replaces the sampled labels, so that all assignments can be enumerated.
    """
    labels = "soft" if feedback.estimator == "soft" else "hard"
    config = mpl.MPL(
        feedback,
        labels,
        supervised_weight=0.0,
        label_smoothing=problem.smoothing,
        teacher=optim.Optimizer(learning_rate=1.0),
        student=problem.optimizer,
    )
    algorithm = mpl.build(config, problem.network, steps=10)
    teacher_state = optim.build(config.teacher, 10).init(problem.teacher)
    state = mpl.State(Learner(problem.teacher, {}, teacher_state), problem.student, jnp.asarray(baseline, jnp.float64))
    with monkeypatch.context() as patch:
        if targets is not None:
            patch.setattr(mpl, "sample_labels", lambda *_: targets)
        after, metrics = algorithm.step(state, problem.views, jax.random.key(1))
    gradient = jax.tree.map(lambda before, after: before - after, problem.teacher, after.teacher.params)
    return gradient, metrics


def all_gradients(problem: Problem, monkeypatch: pytest.MonkeyPatch, estimator: str) -> Array:
    """The teacher's gradient for every way to label the batch: [ways, θ_T]."""
    config = Feedback(estimator, baseline=False)
    return jax.vmap(lambda targets: flat(teacher_gradient(problem, monkeypatch, config, targets)[0]))(
        problem.assignments()
    )


def flat(tree: PyTree) -> Array:
    """All leaves as one vector."""
    return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def distance(ours: Array, truth: Array) -> Array:
    """‖ours − truth‖ / ‖truth‖."""
    return jnp.linalg.norm(ours - truth) / jnp.linalg.norm(truth)
