"""The scale `horizon`: for how long the student keeps what it learns, against automatic differentiation."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl.algorithms import feedback as feedbacks
from metapl.algorithms import mpl
from metapl.algorithms.feedback import Estimate, Feedback
from metapl.optim import Optimizer
from metapl.types import Array
from tests.algorithms.bilevel import Problem, flat, make_problem, teacher_gradient
from tests.algorithms.test_feedback_scale import unrolled

pytestmark = pytest.mark.usefixtures("float64")

HORIZON = Feedback("soft", scale="horizon")
STEPS = (1, 2, 5, 20)
RATES = jnp.array([0.01, 0.1, 0.5])


def fed(problem: Problem, feedback: Feedback) -> tuple[np.ndarray, dict[str, Array]]:
    """What the feedback asks of the teacher's weights, and the step's metrics."""
    with pytest.MonkeyPatch.context() as patch:
        gradient, metrics = teacher_gradient(problem, patch, feedback)
    return flat(gradient), metrics


def slopes_along_v(problem: Problem) -> tuple[Array, Array, Array]:
    """v, and the Jacobian of the student's logits and its probabilities on x_u, all written out."""
    targets = jnp.exp(problem.teacher_log_probs(problem.teacher))
    v = flat(jax.grad(problem.labeled_loss)(problem.updated_student(targets)))
    _, unflatten = jax.flatten_util.ravel_pytree(problem.student.params)

    def logits(student: Array) -> Array:
        return problem.network.apply(unflatten(student), {}, problem.views.weak, train=False)[0]

    here = flat(problem.student.params)
    return v, jax.jacobian(logits)(here), jax.nn.softmax(logits(here))


def test_the_horizon_is_the_inverse_of_the_curvature_along_v():
    """1 / K = η vᵀ G v / vᵀ v, with G = mean_i Jᵢᵀ (diag p − p pᵀ) Jᵢ as a matrix."""
    rate = 0.3
    problem = make_problem(Optimizer(learning_rate=rate))
    v, jacobian, p = slopes_along_v(problem)
    inner = jax.vmap(jnp.diag)(p) - p[:, :, None] * p[:, None, :]
    curvature = jnp.einsum("icp,icd,idq->pq", jacobian, inner, jacobian) / len(p)
    _, metrics = fed(problem, HORIZON)
    assert float(metrics["feedback_horizon"]) == pytest.approx(float(v @ v / (rate * v @ curvature @ v)), rel=1e-6)


def test_the_horizon_multiplies_one_steps_feedback():
    problem = make_problem(Optimizer(learning_rate=0.3), smoothing=0.1)
    one, without = fed(problem, Feedback("soft"))
    whole, metrics = fed(problem, dataclasses.replace(HORIZON, weight=2.0))
    assert "feedback_horizon" not in without
    np.testing.assert_allclose(whole, 2 * float(metrics["feedback_horizon"]) * one, rtol=1e-6, atol=1e-12)


OTHERS: dict[str, Callable[[Problem], Problem]] = {
    "rate": lambda problem: dataclasses.replace(problem, optimizer=Optimizer(learning_rate=1e-9)),
    "batch": lambda problem: dataclasses.replace(
        problem, views=problem.views._replace(weak=jnp.tile(problem.views.weak, (2, 1)))
    ),
    "labelled batch": lambda problem: dataclasses.replace(
        problem,
        views=problem.views._replace(
            labeled=jnp.tile(problem.views.labeled, (2, 1)), labels=jnp.tile(problem.views.labels, 2)
        ),
    ),
}


@pytest.mark.parametrize("changed", OTHERS)
def test_the_horizons_feedback_does_not_depend_on_rates_and_batches(changed):
    """η_S → 0 so that v is that of one student; a batch that is given twice has the same mean."""
    problem = make_problem(Optimizer(learning_rate=1e-7))
    other = OTHERS[changed](problem)
    np.testing.assert_allclose(fed(other, HORIZON)[0], fed(problem, HORIZON)[0], rtol=1e-4, atol=1e-9)


def test_the_horizons_feedback_does_not_depend_on_momentum():
    plain, nesterov = (
        make_problem(Optimizer(learning_rate=1e-9, momentum=momentum, nesterov=momentum > 0)) for momentum in (0.0, 0.9)
    )
    np.testing.assert_allclose(fed(nesterov, HORIZON)[0], fed(plain, HORIZON)[0], rtol=1e-4, atol=1e-9)


@pytest.fixture(scope="module")
def sizes() -> np.ndarray:
    """Length of the feedback through n steps over K (1 − (1 − 1/K)ⁿ) times that of one step: [rate, seed, n]."""

    def compare(rate: Array, seed: Array) -> Array:
        problem = make_problem(Optimizer(learning_rate=rate), seed)
        (one, _), (_, metrics) = fed(problem, Feedback("soft")), fed(problem, HORIZON)
        many = jnp.stack([unrolled(problem, rate, steps) for steps in STEPS])
        horizon = metrics["feedback_horizon"]
        kept = 1 - 1 / jnp.maximum(horizon, 1)
        expected = (1 - kept ** jnp.array(STEPS)) / (1 - kept)
        return jnp.linalg.norm(many, axis=1) / jnp.linalg.norm(one) / expected

    with jax.enable_x64(True):
        over_seeds = jax.vmap(compare, (None, 0))
        return np.asarray(jax.jit(jax.vmap(over_seeds, (0, None)))(RATES.astype(jnp.float64), jnp.arange(60)))


def test_the_horizon_tells_how_large_the_effect_of_n_steps_is(sizes):
    """In the median of 60 problems; without the horizon, 20 steps at rate 0.5 would be overestimated fourfold."""
    for rate, of_rate in zip(RATES, sizes, strict=True):
        told = ", ".join(f"{n}: {m:.2f}" for n, m in zip(STEPS, np.median(of_rate, axis=0), strict=True))
        print(f"η_S {rate:g}, steps: measured over expected size, median: {told}")
    np.testing.assert_allclose(np.median(sizes, axis=1), 1, atol=0.15)
    np.testing.assert_allclose(sizes[:, :, 0], 1, rtol=1e-6)


def test_the_limit_shortens_strong_examples_alone_and_keeps_their_direction():
    targets = jnp.array([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3]])
    h = jnp.array([[40.0, -10.0, 0.0], [0.01, 0.0, -0.02]]) / 2
    free, bound = (
        feedbacks.credit(Feedback("soft", baseline=False, limit=limit), Estimate(h), jnp.zeros(()), targets)
        for limit in (0.0, 1.5)
    )

    def pulls(credit: Array) -> Array:
        return jax.grad(lambda z: 2 * jnp.sum(credit * jax.nn.log_softmax(z)))(jnp.log(targets))

    np.testing.assert_allclose(bound[1], free[1])
    assert float(jnp.max(jnp.abs(pulls(bound)[0]))) == pytest.approx(1.5)
    np.testing.assert_allclose(bound[0] * free[0, 0], free[0] * bound[0, 0])


@pytest.mark.parametrize("estimator", ["cosine", "dot", "finite_difference"])
def test_a_feedback_for_the_whole_batch_has_no_horizon(estimator):
    with pytest.raises(ValueError, match="needs a feedback for every example"):
        mpl.MPL(Feedback(estimator, scale="horizon")).check()
