"""UDA's step, with all of its options, against its equations, written out, in double precision."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl import algorithms, optim
from metapl.algorithms import uda
from metapl.algorithms.uda import Consistency
from metapl.schema import ConfigError, validate
from tests.algorithms.tiny import CLASSES, draw, forward, tiny_network, tiny_views

pytestmark = pytest.mark.usefixtures("float64")

STEPS = 10
CAPS = {
    "none": lambda progress: np.inf,
    "linear": lambda progress: progress,
    "log": lambda progress: 1 - np.exp(-5 * progress),
    "exp": lambda progress: np.exp(5 * (progress - 1)),
}


def by_hand(params, views, method, t):
    """The loss of step t, example by example."""
    config = method.consistency
    fixed = [np.asarray(forward(params, x)) for x in (views.weak, views.labeled)]
    sharp = np.exp(fixed[0] / config.temperature)
    q = sharp / sharp.sum(-1, keepdims=True)
    own = np.exp(fixed[1]) / np.exp(fixed[1]).sum(-1, keepdims=True)
    cap = 1 / CLASSES + (1 - 1 / CLASSES) * CAPS[method.labeled_cap](t / STEPS)

    def loss(params):
        log_l = jax.nn.log_softmax(forward(params, views.labeled))
        supervised = sum(-log_l[i, y] for i, y in enumerate(views.labels) if own[i, y] <= cap) / len(log_l)
        log_u = jax.nn.log_softmax(forward(params, views.strong if config.view == "strong" else views.weak))
        costs = [-jnp.sum(row * log_u[i]) for i, row in enumerate(q)]
        if config.labels == "hard":
            costs = [-log_u[i, row.argmax()] for i, row in enumerate(q)]
        unsupervised = sum(cost for cost, row in zip(costs, q, strict=True) if row.max() >= config.threshold) / len(q)
        factor = config.weight * (min(1, t / config.ramp_steps) if config.ramp_steps else 1)
        return supervised + factor * unsupervised

    return loss


@pytest.mark.parametrize(
    "method",
    [
        uda.UDA(Consistency(2.5, 0.7)),
        uda.UDA(Consistency(2.5, 0.7, threshold=0.6, ramp_steps=4)),
        uda.UDA(Consistency(1.0, labels="hard", view="weak", threshold=0.6)),
        uda.UDA(Consistency(1.0, labels="hard", threshold=0.6), labeled_cap="log", passes="apart"),
        uda.UDA(Consistency(1.0, 0.8), labeled_cap="linear"),
        uda.UDA(Consistency(1.0, 0.8), labeled_cap="exp"),
    ],
)
def test_steps_by_hand(method):
    views, network = tiny_views(), tiny_network()
    algorithm = algorithms.build(
        dataclasses.replace(method, optimizer=optim.Optimizer(learning_rate=0.1)), network, STEPS
    )
    state = algorithm.init(jax.random.key(0), views, None)
    rates = []
    for t in range(6):
        after, metrics = jax.jit(algorithm.step)(state, views, jax.random.key(t))
        gradient = jax.grad(by_hand(state.params, views, method, t))(state.params)
        jax.tree.map(
            lambda a, b, g: np.testing.assert_allclose(a, b - 0.1 * g, rtol=1e-10, atol=1e-12),
            after.params,
            state.params,
            gradient,
        )
        state = after
        rates.append((float(metrics["mask_rate"]), float(metrics["labeled_mask_rate"])))
    masks, own_masks = map(set, zip(*rates, strict=True))
    assert (masks == {1.0}) == (not method.consistency.threshold)
    assert (own_masks == {1.0}) == (method.labeled_cap == "none")


def test_the_cap_lets_everyone_in_at_the_end():
    views, network = tiny_views(), tiny_network()
    algorithm = algorithms.build(uda.UDA(labeled_cap="linear"), network, STEPS)
    state = algorithm.init(jax.random.key(0), views, None)
    step = jax.jit(algorithm.step)
    rates = [
        float(step(state._replace(updates=jnp.int32(t)), views, jax.random.key(0))[1]["labeled_mask_rate"])
        for t in range(STEPS + 1)
    ]
    own = np.take_along_axis(
        np.asarray(jax.nn.softmax(forward(draw(jax.random.key(0)), views.labeled))),
        np.asarray(views.labels)[:, None],
        1,
    )
    assert rates == [np.mean(own <= 1 / 3 + 2 / 3 * t / STEPS) for t in range(STEPS + 1)]
    assert rates[0] < rates[-1] == 1.0


def test_a_term_that_would_teach_nothing_is_refused():
    with pytest.raises(ConfigError, match="has a gradient of zero"):
        validate(uda.UDA(Consistency(view="weak")))
    validate(uda.UDA(Consistency(view="weak", labels="hard")))
