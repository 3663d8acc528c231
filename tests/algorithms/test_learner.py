"""A learner's one update, and the average that follows it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl import optim
from metapl.algorithms import learner as learners
from metapl.types import Network, Weights

STEPS = 30


def draw(seed: int) -> Weights:
    params, mean, variance = jax.random.normal(jax.random.key(seed), (3, 4))
    return Weights({"kernel": params}, {"mean": mean, "var": variance**2})


@pytest.fixture
def network() -> Network:
    return Network(init=lambda key, inputs: draw(0), apply=lambda *_, **__: None, with_dropout=None)


def run(network: Network, decay: float, start: Weights | None = None):
    """The learner after each of STEPS updates: gradients and statistics as drawn."""
    optimizer = optim.build(optim.Optimizer(0.1, average_decay=decay), STEPS)
    learner = learners.create(network, optimizer, jax.random.key(0), jnp.zeros(1), start)
    yield learner
    update = jax.jit(lambda learner, gradient, stats: learners.update(learner, optimizer, gradient, stats))
    for step in range(STEPS):
        learner = update(learner, *draw(1 + step))
        yield learner


@pytest.mark.parametrize("decay", [0.5, 0.999])
def test_the_average_is_tensorflows_and_has_the_statistics(network, decay):
    """The decay is reached after 8 updates (0.5), or never in 30 (0.999)."""
    first = draw(0)
    kernel, variance = np.asarray(first.params["kernel"], np.float64), np.asarray(first.stats["var"], np.float64)
    averages = {"kernel": kernel, "var": variance}
    for t, learner in enumerate(run(network, decay)):
        if t:
            beta = min(decay, (1 + t) / (10 + t))
            kernel = kernel - 0.1 * np.asarray(draw(t).params["kernel"], np.float64)
            averages["kernel"] = beta * averages["kernel"] + (1 - beta) * kernel
            averages["var"] = beta * averages["var"] + (1 - beta) * np.asarray(draw(t).stats["var"], np.float64)
        np.testing.assert_allclose(learner.params["kernel"], kernel, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(learner.weights.params["kernel"], averages["kernel"], rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(learner.weights.stats["var"], averages["var"], rtol=1e-4, atol=1e-6)


def test_without_a_decay_no_average_is_kept(network):
    *_, learner = run(network, decay=0.0)
    assert learner.average is None
    assert learner.weights.params is learner.params
    jax.tree.map(np.testing.assert_array_equal, learner.weights.stats, draw(STEPS).stats)


def test_the_average_starts_where_the_stage_before_ended(network):
    first = next(run(network, decay=0.9, start=draw(77)))
    jax.tree.map(np.testing.assert_array_equal, first.weights, draw(77))
