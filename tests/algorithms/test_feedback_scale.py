"""The feedback's scale: what it is in units of, what it does not depend on, and how far one step sees."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl import optim
from metapl.algorithms import feedback_scale as scales
from metapl.algorithms import mpl
from metapl.algorithms.feedback import Feedback
from metapl.optim import Optimizer
from metapl.types import Array, Learner, PyTree
from tests.algorithms.bilevel import Problem, flat, make_problem, teacher_gradient

pytestmark = pytest.mark.usefixtures("float64")

RHO = 0.3


def asked(problem: Problem, feedback: Feedback) -> np.ndarray:
    """What the feedback asks of the teacher's weights at a first step, beside a supervised loss."""

    def after(weight: float) -> Array:
        settings = dataclasses.replace(feedback, weight=weight)
        config = mpl.MPL(settings, "soft", teacher=Optimizer(learning_rate=1.0), student=problem.optimizer)
        algorithm = mpl.build(config, problem.network, steps=10)
        state, _ = jax.jit(algorithm.step)(begun(problem, config), problem.views, jax.random.key(0))
        return flat(state.teacher.params)

    return np.asarray(after(0.0) - after(feedback.weight))


def begun(problem: Problem, config: mpl.MPL) -> mpl.State:
    teacher = Learner(problem.teacher, {}, optim.build(config.teacher, 10).init(problem.teacher))
    return mpl.State(teacher, problem.student, jnp.zeros(()), scales.start(config.feedback, jnp.float64))


def own_gradient(problem: Problem) -> np.ndarray:
    """∇_{θ_T} CE(y_l, T(x_l; θ_T)), by hand."""
    rows = jnp.arange(len(problem.views.labels))

    def loss(params: PyTree) -> Array:
        logits, _ = problem.network.apply(params, {}, problem.views.labeled, train=False)
        return -jnp.mean(jax.nn.log_softmax(logits)[rows, problem.views.labels])

    return np.asarray(flat(jax.grad(loss)(problem.teacher)))


def test_balanced_feedback_is_rho_times_as_long_as_the_own_gradient_and_keeps_its_direction():
    problem = make_problem(Optimizer(learning_rate=0.5))
    fed, fixed = (asked(problem, Feedback("soft", RHO, scale=scale)) for scale in ("balanced", "fixed"))
    assert np.linalg.norm(fed) == pytest.approx(RHO * np.linalg.norm(own_gradient(problem)), rel=1e-6)
    assert fed @ fixed == pytest.approx(np.linalg.norm(fed) * np.linalg.norm(fixed), rel=1e-9)


def test_balanced_feedback_is_the_same_for_every_rate_and_batch():
    """η_S → 0 so that v is that of one student; a batch that is given twice has the same mean."""
    feedback = Feedback("soft", RHO, scale="balanced")
    problem = make_problem(Optimizer(learning_rate=1e-7))
    expected = asked(problem, feedback)
    slower = dataclasses.replace(problem, optimizer=Optimizer(learning_rate=1e-9))
    twice = dataclasses.replace(problem, views=problem.views._replace(weak=jnp.tile(problem.views.weak, (2, 1))))
    np.testing.assert_allclose(asked(slower, feedback), expected, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(asked(twice, feedback), expected, rtol=1e-5, atol=1e-9)
    fixed = Feedback("soft", RHO)
    assert np.linalg.norm(asked(slower, fixed)) < 0.02 * np.linalg.norm(asked(problem, fixed))


def fed_lengths(sizes: list[float], config: Feedback, own: tuple[float, ...] = ()) -> list[float]:
    """The length of the scaled feedback, step after step, for such lengths of the raw one; the own gradient's is 2."""
    balance, lengths = scales.start(config, jnp.float64), []
    for size, length in zip(sizes, own or [2.0] * len(sizes), strict=True):

        def backward(cotangents: tuple[Array, Array], length: float = length) -> tuple[dict[str, Array]]:
            return ({"own": length * cotangents[0], "fed": cotangents[1]},)

        g, balance = scales.teacher_gradient(config, balance, backward, jnp.ones(()), jnp.asarray(size, jnp.float64))
        assert g["own"] == length
        lengths.append(float(g["fed"]))
    return lengths


def test_the_feedback_falls_with_the_own_gradient_and_does_not_rise_with_it():
    """A teacher that the feedback drives away from its labels must not get more of it."""
    config = Feedback("soft", 1.0, scale="balanced", scale_decay=0.0)
    assert fed_lengths([1.0] * 4, config, own=(2.0, 1.0, 50.0, 0.5)) == pytest.approx([2.0, 1.0, 1.0, 0.5])


def test_no_single_step_exceeds_the_bound_and_weak_ones_count_less():
    config = Feedback("soft", RHO, scale="balanced", scale_decay=0.9)
    usual, spike, after, weak = fed_lengths([1.0, 50.0, 1.0, 0.1], config)
    most = RHO * 2
    assert usual == pytest.approx(most)
    assert spike == pytest.approx(most)
    assert after < 0.2 * most  # the spike is in the average now
    assert weak < 0.2 * after
    assert max(fed_lengths(list(np.random.default_rng(0).lognormal(0, 3, 200)), config)) <= most * (1 + 1e-9)


def test_nothing_is_enlarged_if_the_student_has_nothing_to_say():
    assert fed_lengths([0.0, 0.0, 1e-300], Feedback("soft", RHO, scale="balanced"))[:2] == [0.0, 0.0]


def test_averages_of_unequal_steps_are_unbiased_from_the_first():
    config = Feedback("soft", 1.0, scale="balanced", scale_decay=0.9)
    steps = [1.0, 1.0, 0.5]
    weights = np.array([0.081, 0.09, 0.1])
    assert fed_lengths(steps, config)[-1] == pytest.approx(2 * 0.5 / (weights @ steps / weights.sum()))


def test_a_fixed_scale_keeps_no_averages():
    """So the state and the checkpoints of the paper's letter stay what they were."""
    assert scales.start(Feedback("soft"), jnp.float32) is None


def test_a_student_that_waits_leaves_the_averages_as_they_are():
    problem = make_problem(Optimizer(learning_rate=0.5))
    feedback = Feedback("soft", scale="balanced")
    config = mpl.MPL(feedback, "soft", teacher=problem.optimizer, student=problem.optimizer, student_wait_steps=3)
    state = begun(problem, config)
    state = state._replace(teacher=state.teacher._replace(updates=jnp.zeros((), jnp.int32)))
    after, _ = mpl.build(config, problem.network, steps=10).step(state, problem.views, jax.random.key(0))
    assert float(after.balance.own) == 0
    np.testing.assert_array_equal(flat(after.student.params), flat(state.student.params))


def test_a_step_is_the_same_again_from_its_state():
    """The state holds all that the scale remembers."""
    problem = make_problem(Optimizer(learning_rate=0.5))
    config = mpl.MPL(Feedback("soft", scale="balanced"), "soft", teacher=problem.optimizer, student=problem.optimizer)
    algorithm = mpl.build(config, problem.network, steps=10)
    first, _ = algorithm.step(begun(problem, config), problem.views, jax.random.key(1))
    kept = jax.tree.map(np.asarray, first)
    assert float(first.balance.fed) > 0
    one, _ = algorithm.step(first, problem.views, jax.random.key(2))
    other, _ = algorithm.step(jax.tree.map(jnp.asarray, kept), problem.views, jax.random.key(2))
    jax.tree.map(np.testing.assert_array_equal, one, other)


# One step of the student against K: the teacher's gradient through all of them, by automatic differentiation.


def unrolled(problem: Problem, rate: Array, steps: int) -> Array:
    """∇_{θ_T} of the labelled loss after so many steps of SGD on one batch, whose soft labels the teacher gave."""

    def objective(teacher: PyTree) -> Array:
        targets = jnp.exp(problem.teacher_log_probs(teacher))

        def step(student: PyTree, _: None) -> tuple[PyTree, None]:
            here = dataclasses.replace(problem, student=problem.student._replace(params=student))
            gradient = here.student_gradient(targets)
            return jax.tree.map(lambda theta, g: theta - rate * g, student, gradient), None

        return problem.labeled_loss(jax.lax.scan(step, problem.student.params, None, length=steps)[0])

    return flat(jax.grad(objective)(problem.teacher))


HORIZONS = (1, 2, 5, 20)
SMALL, USUAL, LARGE = range(3)
RATES = jnp.array([1e-4, 0.1, 1.0])


@pytest.fixture(scope="module")
def horizons() -> tuple[np.ndarray, np.ndarray]:
    """Between the feedback of one step and that of K: cosine, and quotient of lengths over K; [rate, seed, K]."""

    def compare(rate: Array, seed: Array) -> tuple[Array, Array]:
        problem = make_problem(Optimizer(learning_rate=rate), seed)
        with pytest.MonkeyPatch.context() as patch:
            one = flat(teacher_gradient(problem, patch, Feedback("soft"))[0])
        many = jnp.stack([unrolled(problem, rate, steps) for steps in HORIZONS])
        lengths = jnp.linalg.norm(one), jnp.linalg.norm(many, axis=1)
        return many @ one / lengths[0] / lengths[1], lengths[1] / lengths[0] / jnp.array(HORIZONS)

    with jax.enable_x64(True):
        seeds = jnp.arange(40)
        over_seeds = jax.vmap(compare, (None, 0))
        cosines, sizes = jax.jit(jax.vmap(over_seeds, (0, None)))(RATES.astype(jnp.float64), seeds)
    for rate, cosine, size in zip(RATES, np.asarray(cosines), np.asarray(sizes), strict=True):
        for k, steps in enumerate(HORIZONS):
            low, middle = np.quantile(cosine[:, k], (0.1, 0.5))
            wrong = np.mean(cosine[:, k] < 0)
            told = f"cosine {middle:.3f}, a tenth below {low:.3f}, {100 * wrong:.0f} % on the wrong side"
            print(f"η_S {rate:g}, K {steps}: {told}; size / K {np.median(size[:, k]):.2f}")
    return np.asarray(cosines), np.asarray(sizes)


def test_weight_k_is_the_effect_of_k_steps_while_the_student_moves_little(horizons):
    cosines, sizes = horizons
    np.testing.assert_allclose(cosines[:, :, 0], 1, rtol=1e-6)  # one step, at every rate: the very gradient
    np.testing.assert_allclose(sizes[:, :, 0], 1, rtol=1e-6)
    assert np.all(cosines[SMALL] > 0.999)
    np.testing.assert_allclose(sizes[SMALL], 1, atol=0.02)


def test_one_step_points_elsewhere_once_the_student_has_moved_far(horizons):
    """η_S K is time. After some units of it the student has learnt its labels: more steps add little, and turn."""
    cosines, sizes = horizons
    wrong_side = np.mean(cosines < 0, axis=1)  # a tenth of all problems at K 5, more than a fifth at K 20
    assert wrong_side[USUAL, 1] < 0.05 < wrong_side[USUAL, 2] < wrong_side[USUAL, 3] < 0.5
    assert np.all(np.diff(np.median(cosines[USUAL], axis=0)) < 1e-3)
    for rate, least in ((USUAL, 0.5), (LARGE, 0.05)):  # the effect of K steps is ever less than K times that of one
        assert np.all(np.diff(np.median(sizes[rate], axis=0)) < 0)
        assert np.median(sizes[rate, :, 3]) == pytest.approx(least, abs=0.1)


def swings(weight: float, horizon: float, momentum: float, steps: int = 20_000) -> bool:
    """Whether a student that follows its teacher, who answers to the student's error, moves ever farther from 0."""
    descent = optim.build(Optimizer(learning_rate=1.0, momentum=momentum), steps)

    def step(state: PyTree, _: None) -> tuple[PyTree, Array]:
        (student, student_memory), (teacher, teacher_memory) = state
        follow, student_memory = descent.update((student - teacher) / horizon, student_memory, student)
        answer, teacher_memory = descent.update(weight * student / horizon, teacher_memory, teacher)
        return ((student + follow, student_memory), (teacher + answer, teacher_memory)), jnp.abs(student)

    one = jnp.ones(())
    _, errors = jax.lax.scan(step, ((one, descent.init(one)), (one, descent.init(one))), None, steps)
    return bool(jnp.max(errors[-steps // 4 :]) > 1)


@pytest.mark.parametrize(("horizon", "momentum"), [(20.0, 0.0), (20.0, 0.5), (20.0, 0.9), (100.0, 0.9), (5.0, 0.99)])
def test_teacher_and_student_swing_from_the_weight_on_that_the_docstring_derives(horizon, momentum):
    bound = 1 / 4 + horizon * (1 - momentum) ** 2 / (1 + momentum)
    assert not swings(0.95 * bound, horizon, momentum)
    assert swings(1.05 * bound, horizon, momentum)
