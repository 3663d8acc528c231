"""Every estimator of the feedback against automatic differentiation of the bilevel objective, in double precision."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl.algorithms import feedback as feedbacks
from metapl.algorithms import mpl
from metapl.algorithms.feedback import Feedback
from metapl.optim import Optimizer
from metapl.schema import ConfigError, validate
from metapl.types import Array, PyTree
from tests.algorithms.bilevel import Problem, all_gradients, distance, flat, make_problem, teacher_gradient

pytestmark = pytest.mark.usefixtures("float64")

RATES = np.array([0.1, 0.01, 0.001])
UPDATES = {
    "sgd": Optimizer(learning_rate=0.5),
    "nesterov": Optimizer(learning_rate=0.5, momentum=0.9, nesterov=True),
    "decay and clipping": Optimizer(learning_rate=0.5, momentum=0.5, weight_decay=0.1, clip_norm=0.05),
    "rmsprop": Optimizer(learning_rate=0.1, momentum=0.9, rule="rmsprop"),
    "lars": Optimizer(learning_rate=2.0, momentum=0.9, weight_decay=0.1, rule="lars", trust_coefficient=0.1),
}


def expected(problem: Problem, values: Array) -> Array:
    """Σ_ŷ P(ŷ; θ_T) value(ŷ), exactly: no sampling."""
    return jax.vmap(problem.probability, (None, 0))(problem.teacher, problem.assignments()) @ values


def expected_loss_gradient(problem: Problem) -> Array:
    """∇_{θ_T} Σ_ŷ P(ŷ; θ_T) CE(y_l, S(x_l; θ_S'(ŷ))), by automatic differentiation of the sum."""
    losses = jax.vmap(lambda targets: problem.labeled_loss(problem.updated_student(targets)))(problem.assignments())

    def objective(teacher: PyTree) -> Array:
        return jax.vmap(problem.probability, (None, 0))(teacher, problem.assignments()) @ losses

    return flat(jax.grad(objective)(problem.teacher))


def falls_with_the_rate(errors: Array) -> bool:
    """Each error belongs to a tenth of the rate before: first order in η means a tenth of the error."""
    return errors[-1] < 2e-3 and bool(jnp.all(errors[1:] < 0.2 * errors[:-1]))


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_soft_is_the_gradient_through_the_students_own_update(monkeypatch, update, smoothing):
    problem = make_problem(UPDATES[update], smoothing=smoothing)

    def objective(teacher):  # Equation 3
        return problem.labeled_loss(problem.updated_student(jnp.exp(problem.teacher_log_probs(teacher))))

    truth = flat(jax.jit(jax.grad(objective))(problem.teacher))
    for baseline in (0.0, 0.7):  # a baseline shifts every class alike, which soft labels do not feel
        ours, _ = teacher_gradient(problem, monkeypatch, Feedback("soft"), baseline=baseline)
        assert distance(flat(ours), truth) < 1e-6


@pytest.mark.parametrize("update", UPDATES)
def test_dot_is_the_gradient_of_the_expected_loss_as_the_rate_falls(monkeypatch, update):
    def ours_and_truth(rate):
        problem = make_problem(replace(UPDATES[update], learning_rate=rate))
        return expected(problem, all_gradients(problem, monkeypatch, "dot")), expected_loss_gradient(problem)

    ours, truth = jax.jit(jax.vmap(ours_and_truth))(RATES)
    assert np.all(np.sum(ours * truth, axis=1) > 0)  # downhill, not only of the right size
    errors = jax.vmap(distance)(ours, truth)
    print("relative error of E[dot] at η = .1, .01, .001:", [f"{error:.1e}" for error in errors])
    assert falls_with_the_rate(errors)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_per_example_has_the_expectation_of_dot_and_less_variance(monkeypatch, smoothing):
    problem = make_problem(Optimizer(learning_rate=0.001), unlabeled=4, smoothing=smoothing)
    truth = expected_loss_gradient(problem)
    noise = {}
    for name in ("dot", "per_example"):
        gradients = jax.jit(lambda name=name: all_gradients(problem, monkeypatch, name))()
        mean = expected(problem, gradients)
        assert distance(mean, truth) < 2e-3
        spread = expected(problem, jnp.sum((gradients - mean) ** 2, axis=1)) ** 0.5
        noise[name] = float(spread / jnp.linalg.norm(truth))
    print("noise / signal of one batch:", noise)
    assert noise["per_example"] < 0.5 * noise["dot"]


def test_per_example_is_right_under_clipping_for_many_examples_only(monkeypatch):
    """It takes the Jacobian at one sample of g; the fewer examples there are, the further each of them moves g."""

    def error(unlabeled):
        problem = make_problem(replace(UPDATES["decay and clipping"], learning_rate=1e-3), unlabeled=unlabeled)
        ours = jax.jit(lambda: expected(problem, all_gradients(problem, monkeypatch, "per_example")))()
        truth = expected_loss_gradient(problem)
        return float(ours @ truth / jnp.linalg.norm(ours) / jnp.linalg.norm(truth))

    cosines = [error(unlabeled) for unlabeled in (2, 7)]
    print("cosine of E[per_example] and the truth, 2 and 7 examples:", cosines)
    assert cosines[0] < cosines[1]
    assert cosines[1] > 0.9


@pytest.mark.parametrize("unlabeled", [1, 4])
def test_credit_is_the_sum_over_the_batch_for_a_joint_sample(monkeypatch, unlabeled):
    """Crediting the mean CE would shrink the feedback U-fold."""
    problem = make_problem(Optimizer(learning_rate=0.001), unlabeled=unlabeled)
    ours = jax.jit(lambda: expected(problem, all_gradients(problem, monkeypatch, "dot")))()
    assert jnp.linalg.norm(ours) == pytest.approx(float(jnp.linalg.norm(expected_loss_gradient(problem))), rel=0.01)


def h_of(problem: Problem, monkeypatch: pytest.MonkeyPatch, estimator: str, way: int) -> Array:
    targets = problem.assignments()[way]
    return teacher_gradient(problem, monkeypatch, Feedback(estimator), targets)[1]["feedback"]


@pytest.mark.parametrize("update", UPDATES)
def test_finite_difference_is_the_gradient_of_the_expected_loss_at_every_rate(monkeypatch, update):
    problem = make_problem(UPDATES[update])
    ours = jax.jit(lambda: expected(problem, all_gradients(problem, monkeypatch, "finite_difference")))()
    assert distance(ours, expected_loss_gradient(problem)) < 1e-9


def test_finite_difference_becomes_dot_as_the_rate_falls(monkeypatch):
    def error(rate):
        problem = make_problem(Optimizer(learning_rate=rate))
        return jnp.abs(h_of(problem, monkeypatch, "finite_difference", 5) / h_of(problem, monkeypatch, "dot", 5) - 1)

    assert falls_with_the_rate(jax.jit(jax.vmap(error))(RATES))


@pytest.mark.parametrize("update", UPDATES)
def test_cosine_lies_in_its_range_and_has_the_sign_of_dot(monkeypatch, update):
    def both(seed):
        problem = make_problem(UPDATES[update], seed)
        return h_of(problem, monkeypatch, "cosine", 5), h_of(problem, monkeypatch, "dot", 5)

    cosine, dot = jax.jit(jax.vmap(both))(jnp.arange(500))
    assert np.all(np.abs(cosine) <= 1)
    same = np.mean(np.sign(cosine) == np.sign(dot))
    print("share of equal signs:", same)
    assert same > 0.8 if update in ("rmsprop", "lars") else same == 1
    assert 0.1 < np.mean(cosine > 0) < 0.9  # both signs occur


@pytest.mark.parametrize("update", UPDATES)
def test_the_shares_of_all_labels_are_the_whole_where_the_update_is_linear(monkeypatch, update):
    problem = make_problem(UPDATES[update])
    whole = h_of(problem, monkeypatch, "dot", 5)
    shares = len(problem.views.weak) * h_of(problem, monkeypatch, "per_example", 5)  # told as the mean over examples
    assert (abs(shares / whole - 1) < 1e-9) == (update in ("sgd", "nesterov"))


def controlled(problem: Problem, monkeypatch: pytest.MonkeyPatch, estimator: str) -> Array:
    h = {}
    targets = problem.assignments()[5]
    with monkeypatch.context() as patch:
        patch.setattr(feedbacks, "mean_h", lambda values, _: h.setdefault("all", values).sum())
        teacher_gradient(problem, monkeypatch, Feedback(estimator), targets)
    return h["all"]


def test_controls_are_per_example_feedback_that_says_nothing_or_the_contrary(monkeypatch):
    problem = make_problem(Optimizer(learning_rate=0.5))
    true, rolled, negated, noise = (
        np.asarray(controlled(problem, monkeypatch, name)) for name in ("per_example", "rolled", "negated", "noise")
    )
    np.testing.assert_array_equal(negated, -true)
    np.testing.assert_array_equal(rolled[[1, 2, 0]], true)
    centred = true - true.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(np.linalg.norm(noise, axis=1), np.linalg.norm(centred, axis=1))
    np.testing.assert_allclose(noise.sum(axis=1), 0, atol=1e-15)
    cosines = np.sum(noise * centred, axis=1) / np.sum(centred**2, axis=1)
    assert np.all(np.abs(cosines) < 0.999)


def test_controls_are_for_both_kinds_of_labels():
    for name in ("rolled", "negated", "noise"):
        for labels in ("hard", "soft"):
            validate(mpl.MPL(feedback=Feedback(name), labels=labels))


def test_a_label_that_helps_gets_a_positive_h(monkeypatch):
    """The sign: with the labelled points themselves as unlabelled data, the true labels lower the labelled loss."""
    problem = make_problem(Optimizer(learning_rate=0.01))
    views = problem.views._replace(weak=problem.views.labeled)
    problem = Problem(views, problem.teacher, problem.student, problem.network, problem.optimizer)
    truth = jax.nn.one_hot(views.labels, 3, dtype=jnp.float64)
    before = problem.labeled_loss(problem.student.params)
    assert problem.labeled_loss(problem.updated_student(truth)) < before
    for estimator in ("dot", "cosine", "per_example", "finite_difference"):
        gradient, metrics = teacher_gradient(problem, monkeypatch, Feedback(estimator, baseline=False), truth)
        assert metrics["feedback"] > 0
        if estimator == "per_example":
            continue  # single examples may disagree with their batch
        more_of_it = jax.grad(lambda teacher: jnp.sum(truth * problem.teacher_log_probs(teacher)))(problem.teacher)
        assert flat(gradient) @ flat(more_of_it) < 0  # descending makes the true labels more probable


def test_the_released_codes_term_has_no_gradient_and_ours_has(monkeypatch):
    """google-research's teacher descends h · CE(StopGradient(softmax z), z); the gradient is softmax z − softmax z."""
    problem = make_problem(Optimizer(learning_rate=0.5))

    def released_term(teacher):
        log_probs = problem.teacher_log_probs(teacher)
        return 0.3 * -jnp.mean(jnp.sum(jax.lax.stop_gradient(jnp.exp(log_probs)) * log_probs, axis=-1))

    assert jnp.linalg.norm(flat(jax.grad(released_term)(problem.teacher))) < 1e-15
    for estimator in ("dot", "cosine", "per_example", "finite_difference", "soft"):
        targets = None if estimator == "soft" else problem.assignments()[5]
        gradient, _ = teacher_gradient(problem, monkeypatch, Feedback(estimator, baseline=False), targets)
        assert jnp.linalg.norm(flat(gradient)) > 1e-5


def test_settings_that_would_repeat_the_released_codes_error_are_refused():
    with pytest.raises(ConfigError, match="right for hard labels only"):
        validate(mpl.MPL(feedback=Feedback("cosine"), labels="soft"))
    with pytest.raises(ConfigError, match="set labels to 'soft'"):
        validate(mpl.MPL(feedback=Feedback("soft"), labels="hard"))


def test_the_baseline_is_subtracted_then_moved(monkeypatch):
    problem = make_problem(Optimizer(learning_rate=0.5))
    targets = problem.assignments()[5]
    config = Feedback("cosine", baseline_decay=0.9)
    plain, metrics = teacher_gradient(problem, monkeypatch, config, targets, baseline=0.0)
    h = float(metrics["feedback"])
    shifted, _ = teacher_gradient(problem, monkeypatch, config, targets, baseline=0.25)
    np.testing.assert_allclose(flat(shifted), flat(plain) * (h - 0.25) / h, rtol=1e-9)
    assert float(feedbacks.next_baseline(config, jnp.asarray(h), jnp.asarray(0.25), targets)) == pytest.approx(
        0.9 * 0.25 + 0.1 * h
    )


def test_none_gives_the_teacher_nothing(monkeypatch):
    problem = make_problem(Optimizer(learning_rate=0.5))
    gradient, _ = teacher_gradient(problem, monkeypatch, Feedback("none"), baseline=0.7)
    assert np.all(flat(gradient) == 0)


def test_every_estimator_has_a_name_in_the_settings():
    names = Feedback.__dataclass_fields__["estimator"].type.__args__
    assert set(names) == set(feedbacks.ESTIMATORS)
