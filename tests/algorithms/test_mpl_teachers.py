"""One step of MPL with each teacher of Table 10, against the equations written out, in double precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl import optim
from metapl.algorithms import mpl
from metapl.algorithms.feedback import Feedback
from metapl.algorithms.uda import Consistency
from metapl.types import PSEUDO_LABELS
from tests.algorithms.tiny import CLASSES, draw, forward, tiny_network, tiny_views

pytestmark = pytest.mark.usefixtures("float64")

TEACHERS = {
    "supervised": {},
    "randaugment": {"labeled_view": "strong"},
    "mixup": {"mixup": 0.7},
    "pseudo_labels": {"consistency": Consistency(1.5, labels="hard", view="weak", threshold=0.6)},
    "uda": {"consistency": Consistency(2.5, 0.7)},
}
KEY, BASELINE, WEIGHT, RATE = 1, 0.3, 0.7, 0.5


def mean_ce(targets, params, inputs):
    return -jnp.sum(jnp.asarray(targets) * jax.nn.log_softmax(forward(params, inputs))) / len(inputs)


def labelled(teacher, views):
    """The teacher's labelled inputs and targets."""
    x, q = np.asarray(views.labeled), np.eye(CLASSES)[np.asarray(views.labels)]
    if teacher == "randaugment":
        x = np.asarray(views.labeled_strong)
    if teacher == "mixup":
        part_key, order_key = jax.random.split(jax.random.fold_in(jax.random.key(KEY), 100))
        part = np.asarray(jax.random.beta(part_key, 0.7, 0.7, (4,), jnp.float64))[:, None]
        order = np.asarray(jax.random.permutation(order_key, 4))
        x, q = (part * array + (1 - part) * array[order] for array in (x, q))
    return jnp.asarray(x), q


def own_loss(teacher, views, now):
    """The teacher's own method, as a function of its weights; targets are those of `now`."""
    x_l, q_l = labelled(teacher, views)
    p = np.asarray(jax.nn.softmax(forward(now, views.weak)))

    def loss(params):
        total = mean_ce(q_l, params, x_l)
        if teacher == "pseudo_labels":
            hard = np.eye(CLASSES)[p.argmax(-1)] * (p.max(-1, keepdims=True) >= 0.6)
            assert 0 < hard.sum() < len(p)
            total += 1.5 * mean_ce(hard, params, views.weak)
        if teacher == "uda":
            sharp = p ** (1 / 0.7)
            total += 2.5 * mean_ce(sharp / sharp.sum(-1, keepdims=True), params, views.strong)
        return total

    return loss


@pytest.mark.parametrize("labels_view", ["weak", "strong"])
@pytest.mark.parametrize("teacher", TEACHERS)
def test_one_step_by_hand(teacher, labels_view):
    views, network, sgd = tiny_views(), tiny_network(), optim.Optimizer(learning_rate=RATE)
    settings = TEACHERS[teacher] | {"teacher_view": labels_view}
    algorithm = mpl.build(mpl.MPL(Feedback("cosine", WEIGHT), teacher=sgd, student=sgd, **settings), network, 10)
    labeled_by_teacher = views.unlabeled_as(labels_view)
    state = algorithm.init(jax.random.key(0), views, None)._replace(baseline=jnp.asarray(BASELINE))
    after, metrics = algorithm.step(state, views, jax.random.key(KEY))

    t, s = state.teacher.params, state.student.params
    jax.tree.map(np.testing.assert_array_equal, t, draw(jax.random.key(0)))
    sample_key = jax.random.split(jax.random.key(KEY), 4)[1]
    sampled = np.asarray(jax.random.categorical(sample_key, forward(t, labeled_by_teacher)))
    q = np.eye(CLASSES)[sampled]
    g = jax.grad(lambda params: mean_ce(q, params, views.weak))(s)
    new_s = jax.tree.map(lambda p, d: p - RATE * d, s, g)
    v = jax.grad(lambda params: mean_ce(np.eye(CLASSES)[np.asarray(views.labels)], params, views.labeled))(new_s)
    flat_g, flat_v = (np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)]) for tree in (g, v))
    h = flat_g @ flat_v / np.sqrt((flat_g @ flat_g) * (flat_v @ flat_v))

    def objective(params):
        return own_loss(teacher, views, t)(params) + WEIGHT * (h - BASELINE) * mean_ce(q, params, labeled_by_teacher)

    gradient = jax.grad(objective)(t)
    new_t = jax.tree.map(lambda p, d: p - RATE * d, t, gradient)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11), after.teacher.params, new_t)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11), after.student.params, new_s)

    flat_t = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(gradient)])
    guesses = np.asarray(forward(new_s, views.labeled)).argmax(-1)
    told = {
        "feedback": h,
        "feedback_cosine": h,
        "teacher_gradient_norm": np.linalg.norm(flat_t),
        "student_gradient_norm": np.linalg.norm(flat_g),
        "student_labeled_accuracy": np.mean(guesses == np.asarray(views.labels)),
        "student_agreement": np.mean(np.asarray(forward(s, views.weak)).argmax(-1) == sampled),
    }
    for name, value in told.items():
        np.testing.assert_allclose(metrics[name], value, rtol=1e-9, err_msg=name)
    np.testing.assert_array_equal(metrics[PSEUDO_LABELS], q)
    assert ("mask_rate" in metrics) == (teacher in ("uda", "pseudo_labels"))


@pytest.mark.parametrize("estimator", ["dot", "per_example", "finite_difference", "none"])
def test_the_students_labelled_accuracy_is_told_where_an_estimator_asks_for_it(estimator):
    views, sgd = tiny_views(), optim.Optimizer(learning_rate=RATE)
    algorithm = mpl.build(mpl.MPL(Feedback(estimator), student=sgd), tiny_network(), 10)
    state = algorithm.init(jax.random.key(0), views, None)
    after, metrics = algorithm.step(state, views, jax.random.key(KEY))
    assert ("feedback_cosine" in metrics) == (estimator in ("dot", "per_example"))
    if estimator == "none":
        assert "student_labeled_accuracy" not in metrics
    else:
        guesses = np.asarray(forward(after.student.params, views.labeled)).argmax(-1)
        assert metrics["student_labeled_accuracy"] == np.mean(guesses == np.asarray(views.labels))
