"""The whole step against an independent one, and what must hold of the labels."""

import dataclasses
import os
from collections.abc import Iterator
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import two_moons as oracle

from metapl import algorithms, data, models, optim
from metapl.algorithms import fixmatch, mean_teacher, mpl, supervised, uda
from metapl.algorithms.feedback import Feedback
from metapl.algorithms.sample_labels import sample_labels
from metapl.algorithms.uda import Consistency
from metapl.data.sources.two_moons import TwoMoons
from metapl.models.mlp import MLP
from metapl.schema import ConfigError, validate
from metapl.types import Network, Views
from tests.one_convolution import OneConvolution, OneConvolutionModule

SIZES = (2, 8, 8, 2)


def layers(params) -> oracle.Layers:
    """The package's weights as the example's."""
    return [(params[f"Dense_{i}"]["kernel"], params[f"Dense_{i}"]["bias"]) for i in range(len(params))]


@pytest.fixture
def views() -> Views:
    (moons,) = data.load(TwoMoons(), [3], ())
    x_l, x_u = jnp.asarray(moons.labeled), jnp.asarray(moons.unlabeled[:32])
    return Views(x_l, jnp.asarray(moons.labels), x_u, x_u + 0.1)


@pytest.fixture
def network():
    return models.build(MLP(init_range=1.0), classes=2)


def test_one_step_is_the_examples_step(views, network):
    config = mpl.MPL(
        feedback=Feedback(weight=0.7), teacher=optim.Optimizer(0.2), student=optim.Optimizer(learning_rate=0.2)
    )
    algorithm = mpl.build(config, network, steps=10)
    state = algorithm.init(jax.random.key(0), views, None)._replace(baseline=jnp.float32(0.3))
    key = jax.random.key(1)
    after, metrics = jax.jit(algorithm.step)(state, views, key)

    teacher, student = layers(state.teacher.params), layers(state.student.params)
    guesses = jax.random.categorical(jax.random.split(key, 4)[1], oracle.logits(teacher, views.weak))
    assert 0 < np.mean(guesses) < 1  # both labels are drawn, so the step has something to get wrong
    start = (teacher, student, jnp.float32(0.3))
    (new_teacher, new_student, baseline), cosine = jax.jit(oracle.mpl_step)(
        start, views.labeled, views.labels, views.weak, guesses, 0.7, rate=0.2
    )
    close = {"rtol": 1e-5, "atol": 1e-6}
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, **close), layers(after.teacher.params), new_teacher)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, **close), layers(after.student.params), new_student)
    np.testing.assert_allclose(after.baseline, baseline, rtol=1e-5)
    np.testing.assert_allclose(metrics["feedback"], cosine, rtol=1e-4)


def test_hard_labels_are_drawn_with_the_teachers_probabilities():
    logits = jnp.log(jnp.array([[0.2, 0.8], [0.9, 0.1]]))
    keys = jax.random.split(jax.random.key(0), 4000)
    drawn = jax.vmap(lambda key: sample_labels("hard", key, logits))(keys)
    assert set(np.unique(drawn)) == {0.0, 1.0}
    np.testing.assert_allclose(drawn.mean(0), jnp.exp(logits), atol=0.03)


def test_the_student_sees_no_label_but_the_teachers(views, network):
    """Other labelled points change the teacher, and leave the student's step alone."""
    algorithm = mpl.build(mpl.MPL(), network, steps=10)
    state = algorithm.init(jax.random.key(0), views, None)
    step = jax.jit(algorithm.step)
    one, _ = step(state, views, jax.random.key(1))
    two, _ = step(state, views._replace(labels=1 - views.labels), jax.random.key(1))
    jax.tree.map(np.testing.assert_array_equal, one.student.params, two.student.params)
    assert not np.allclose(one.teacher.params["Dense_0"]["kernel"], two.teacher.params["Dense_0"]["kernel"], atol=1e-8)


def test_the_consistency_term_is_udas(views, network):
    """With feedback off, the teacher's gradient is that of CE + λ · UDA, written out."""
    config = mpl.MPL(
        feedback=Feedback("none"), consistency=Consistency(2.5, 0.5), teacher=optim.Optimizer(learning_rate=1.0)
    )
    algorithm = mpl.build(config, network, steps=10)
    state = algorithm.init(jax.random.key(0), views, None)
    after, _ = jax.jit(algorithm.step)(state, views, jax.random.key(1))

    def objective(net):
        sharpened = jax.nn.softmax(oracle.logits(layers(state.teacher.params), views.weak) / 0.5)
        uda = -jnp.mean(jnp.sum(sharpened * jax.nn.log_softmax(oracle.logits(net, views.strong)), axis=1))
        return oracle.cross_entropy(net, views.labeled, views.labels) + 2.5 * uda

    expected = oracle.sgd(
        layers(state.teacher.params), jax.jit(jax.grad(objective))(layers(state.teacher.params)), rate=1.0
    )
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), layers(after.teacher.params), expected)


def test_a_stage_before_starts_the_teacher_and_not_the_student(views, network):
    algorithm = mpl.build(mpl.MPL(), network, steps=10)
    start = network.init(jax.random.key(9), views.weak)
    state = algorithm.init(jax.random.key(0), views, start)
    jax.tree.map(np.testing.assert_array_equal, state.teacher.params, start.params)
    assert not np.allclose(state.student.params["Dense_0"]["kernel"], start.params["Dense_0"]["kernel"])
    evaluated = algorithm.predictor(state)
    jax.tree.map(np.testing.assert_array_equal, evaluated.params, state.student.params)


def test_a_student_that_is_told_to_starts_where_the_teacher_does(views, network):
    algorithm = mpl.build(mpl.MPL(student_start="teacher"), network, steps=10)
    start = network.init(jax.random.key(9), views.weak)
    jax.tree.map(
        np.testing.assert_array_equal, algorithm.init(jax.random.key(0), views, start).student.params, start.params
    )
    alone = algorithm.init(jax.random.key(0), views, None)  # with no stage before, both are drawn, each by itself
    assert not np.allclose(alone.student.params["Dense_0"]["kernel"], alone.teacher.params["Dense_0"]["kernel"])


@pytest.mark.parametrize("view", ["weak", "strong"])
def test_the_student_learns_from_the_view_it_is_told(views, network, view):
    algorithm = mpl.build(mpl.MPL(student_view=view), network, steps=10)
    state = algorithm.init(jax.random.key(0), views, None)
    one, _ = jax.jit(algorithm.step)(state, views, jax.random.key(1))
    two, _ = jax.jit(algorithm.step)(state, views._replace(strong=-views.strong), jax.random.key(1))
    same = np.array_equal(one.student.params["Dense_0"]["kernel"], two.student.params["Dense_0"]["kernel"])
    assert same == (view == "weak")


@pytest.fixture(scope="module", autouse=True)
def small_networks() -> Iterator[None]:
    with mock.patch.dict(models.MODELS, {OneConvolution: OneConvolutionModule}):
        yield


def picture_network(dropout: float = 0.3) -> Network:
    return models.build(OneConvolution(dropout), classes=3)


def picture_views(step: int) -> Views:
    keys = jax.random.split(jax.random.key(100 + step), 5)
    x_l, x_u, x_s, x_ls = (jax.random.normal(key, (n, 6, 6, 3)) for key, n in zip(keys, (8, 16, 16, 8), strict=False))
    labels, more = jax.random.randint(keys[4], (8,), 0, 3), (x_u + 0.1,)
    return Views(x_l, labels, x_u, x_s, labeled_strong=x_ls, more_weak=more)


def point_views(step: int) -> Views:
    views = picture_views(step)
    return jax.tree.map(lambda leaf: leaf[:, 0, 0, :2] if leaf.ndim > 1 else leaf, views)


INPUTS = {
    "points": (lambda: models.build(MLP(init_range=1.0), classes=3), point_views),
    "pictures": (picture_network, picture_views),
}
UDA = Consistency(2.5, 0.7)
RELEASED = {
    "consistency": Consistency(8.0, 0.7, threshold=0.4, ramp_steps=5),
    "labeled_cap": "linear",
    "passes": "apart",
}
OWN_LABELS = Consistency(1.0, labels="hard", view="weak", threshold=0.4)
MATCHED = Consistency(1.5, labels="hard", threshold=0.4)

OWN = [fixmatch.FixMatch(1.5, 0.4, label_smoothing=0.1), mean_teacher.MeanTeacher(2.0, label_smoothing=0.1)]

# the teacher's own method -> (MPL's settings, the method alone)
TEACHERS = {
    "supervised": ({}, supervised.Supervised()),
    "randaugment": ({"labeled_view": "strong"}, supervised.Supervised(view="strong")),
    "mixup": ({"mixup": 0.7}, supervised.Supervised(mixup=0.7)),
    "pseudo_labels": ({"consistency": OWN_LABELS}, uda.UDA(OWN_LABELS)),
    "uda": ({"consistency": UDA}, uda.UDA(UDA)),
    "uda, as released": (RELEASED, uda.UDA(**RELEASED)),
    "fixmatch": ({"consistency": MATCHED}, fixmatch.FixMatch(1.5, 0.4)),
    **{f"own {method.name}": ({"own": method}, method) for method in OWN},
}


ON_PICTURES = ("supervised", "uda", "uda, as released", "own mean_teacher")  # batch norm, dropout, one pass and several


@pytest.mark.parametrize(
    ("inputs", "teacher"),
    [("pictures" if teacher in ON_PICTURES else "points", teacher) for teacher in TEACHERS],
)
def test_without_feedback_the_teacher_is_its_own_method_bit_for_bit(inputs, teacher):
    build, views_at = INPUTS[inputs]
    network = build()
    settings, method = TEACHERS[teacher]
    average = 0.0 if "decay" in {field.name for field in dataclasses.fields(method)} else 0.9
    optimizer = optim.Optimizer(0.2, "cosine", 2, momentum=0.9, nesterov=True, weight_decay=1e-3, average_decay=average)
    config = mpl.MPL(Feedback("none"), label_smoothing=0.1, teacher=optimizer, **settings)
    control = mpl.build(config, network, 10)
    method = dataclasses.replace(method, optimizer=optimizer, label_smoothing=0.1)
    alone = algorithms.build(method, network, 10)
    state, learner = (jax.jit(algorithm.init)(jax.random.key(5), views_at(0), None) for algorithm in (control, alone))
    # As users' programs are compiled: the emitters of tests, which hurry, do not round alike in unlike programs.
    hurry = "--xla_cpu_use_fusion_emitters=false" in os.environ["XLA_FLAGS"].split()
    options = {"xla_cpu_use_fusion_emitters": True} if hurry else {}
    steps = [jax.jit(it.step, compiler_options=options) for it in (control, alone)]
    for i in range(10):
        state, _ = steps[0](state, views_at(i), jax.random.key(i))
        learner, _ = steps[1](learner, views_at(i), jax.random.key(i))
        jax.tree.map(np.testing.assert_array_equal, state.teacher, learner)


def test_teacher_and_student_have_dropouts_of_their_own():
    """The teacher is bitwise that of a network with its rate; the student feels its own rate alone."""
    network, views = picture_network(0.0), picture_views(0)

    def after(teacher_dropout, student_dropout, network=network):
        config = mpl.MPL(teacher_dropout=teacher_dropout, student_dropout=student_dropout)
        algorithm = mpl.build(config, network, 10)
        state = jax.jit(algorithm.init)(jax.random.key(0), views, None)
        return jax.jit(algorithm.step)(state, views, jax.random.key(1))[0]

    def kernel(learner):
        return np.asarray(learner.params["head"]["kernel"])

    both, model = after(0.5, 0.5), after(None, None, picture_network(0.5))
    np.testing.assert_array_equal(kernel(both.student), kernel(model.student))
    np.testing.assert_array_equal(kernel(both.teacher), kernel(model.teacher))
    teacher_only = after(0.5, None)
    assert not np.array_equal(kernel(teacher_only.student), kernel(both.student))
    assert not np.array_equal(kernel(after(None, 0.5).teacher), kernel(both.teacher))


def test_a_student_that_waits_stays_as_it_is_and_gives_no_feedback(views, network):
    optimizer = optim.Optimizer(0.2, "cosine", 2)
    waiting = mpl.build(mpl.MPL(teacher=optimizer, student=optimizer, student_wait_steps=4), network, 10)
    control = algorithms.build(supervised.Supervised(optimizer), network, 10)
    state, learner = (algorithm.init(jax.random.key(0), views, None) for algorithm in (waiting, control))
    first, steps = state.student, (jax.jit(waiting.step), jax.jit(control.step))
    for i in range(6):
        state, _ = steps[0](state, views, jax.random.key(i))
        learner, _ = steps[1](learner, views, jax.random.key(i))
        same_student = np.array_equal(state.student.params["Dense_0"]["kernel"], first.params["Dense_0"]["kernel"])
        close = np.allclose(state.teacher.params["Dense_0"]["kernel"], learner.params["Dense_0"]["kernel"], atol=1e-7)
        assert same_student == (i < 5)  # the fifth step is the first of its warm-up, at a rate of 0
        assert close == (i < 4)
        assert (float(state.baseline) == 0) == (i < 4)
    assert state.student.updates == 2
    with pytest.raises(ConfigError, match="must be fewer than the stage's 10 steps"):
        mpl.build(mpl.MPL(student_wait_steps=10), network, 10)


def test_a_cap_that_nothing_would_apply_is_refused():
    with pytest.raises(ConfigError, match="labeled_cap needs a consistency"):
        validate(mpl.MPL(consistency=Consistency(0.0), labeled_cap="linear"))


def test_an_own_method_is_what_the_fields_describe(views, network):
    config = mpl.MPL(consistency=UDA, label_smoothing=0.1)
    same = mpl.MPL(own=uda.UDA(UDA, label_smoothing=0.1), label_smoothing=0.1)
    one, two = (mpl.build(it, network, 10) for it in (config, same))
    state = one.init(jax.random.key(0), views, None)
    jax.tree.map(
        np.testing.assert_array_equal,
        *(jax.jit(it.step)(state, views, jax.random.key(1)) for it in (one, two)),
    )


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"own": mpl.MPL()}, r"own.name takes a method that trains one network \(supervised, .*\), got 'mpl'"),
        ({"own": uda.UDA(optimizer=optim.Optimizer(0.5))}, "the teacher's optimizer is `teacher`"),
        ({"own": uda.UDA(), "mixup": 0.5}, "mixup: the teacher's own method is uda; set it in own"),
    ],
)
def test_an_own_method_that_cannot_be_is_refused(settings, complaint):
    with pytest.raises(ConfigError, match=complaint):
        validate(mpl.MPL(**settings))
