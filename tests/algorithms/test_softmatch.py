"""SoftMatch's step against its equations, written out, in double precision."""

import jax
import numpy as np
import pytest

from metapl.algorithms import softmatch
from metapl.config import Stage
from metapl.schema import ConfigError, validate
from tests.algorithms.single_steps import SGD, assert_close, begin, descended, labeled_loss, log_p, predict, seen

pytestmark = pytest.mark.usefixtures("float64")
BEFORE = softmatch.Memory(np.array([0.5, 0.2, 0.3]), np.asarray(0.9), np.asarray(0.05))


@pytest.mark.parametrize("alignment", [True, False])
def test_one_step_by_hand(alignment):
    views = seen()
    method = softmatch.SoftMatch(2.5, average=0.9, narrowing=1.5, alignment=alignment, optimizer=SGD)
    algorithm, state = begin(method, BEFORE)
    after, metrics = algorithm.step(state, views, jax.random.key(1))

    q = predict(state.params, views.weak)
    shares = 0.9 * np.array([0.5, 0.2, 0.3]) + 0.1 * q.mean(0)
    even = q * (1 / 3 + 1e-6) / (shares + 1e-6) if alignment else q
    sure = (even / even.sum(-1, keepdims=True)).max(-1)
    mean, variance = 0.81 + 0.1 * sure.mean(), 0.045 + 0.1 * ((sure - sure.mean()) ** 2).sum() / 7
    weights = np.array([1 if s >= mean else np.exp(-((s - mean) ** 2) / (2 * variance / 1.5**2)) for s in sure])
    assert weights.min() < 0.9

    def loss(params):
        strong = log_p(params, views.strong)
        return labeled_loss(params, views) - 2.5 * sum(weights[i] * strong[i, q[i].argmax()] for i in range(8)) / 8

    assert_close(after.params, descended(state.params, loss))
    assert_close(after.memory, softmatch.Memory(shares, mean, variance))
    np.testing.assert_allclose(metrics["mask_rate"], weights.mean())


def test_a_batch_of_one_has_no_variance():
    with pytest.raises(ConfigError, match="unlabeled_batch = 1: softmatch takes the variance of a batch"):
        validate(Stage(softmatch.SoftMatch(), unlabeled_batch=1))
