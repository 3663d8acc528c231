"""FreeMatch's step against its equations, written out, in double precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl.algorithms import freematch
from tests.algorithms.single_steps import SGD, assert_close, begin, descended, labeled_loss, log_p, predict, seen

pytestmark = pytest.mark.usefixtures("float64")
BEFORE = freematch.Memory(np.asarray(0.6), np.array([0.5, 0.2, 0.3]), np.array([0.2, 0.2, 0.6]))


def norm(parts):
    return parts / parts.sum()


def test_one_step_by_hand():
    views = seen()
    method = freematch.FreeMatch(2.5, fairness_weight=0.7, average=0.9, optimizer=SGD)
    algorithm, state = begin(method, BEFORE)
    after, metrics = algorithm.step(state, views, jax.random.key(1))

    q = predict(state.params, views.weak)
    tau = 0.9 * 0.6 + 0.1 * q.max(-1).mean()
    shares = 0.9 * np.array([0.5, 0.2, 0.3]) + 0.1 * q.mean(0)
    histogram = 0.9 * np.array([0.2, 0.2, 0.6]) + 0.1 * np.bincount(q.argmax(-1), minlength=3) / 8
    kept = [i for i in range(8) if q[i].max() >= tau * shares[q[i].argmax()] / shares.max()]
    assert 0 < len(kept) < 8
    guesses = predict(state.params, views.strong).argmax(-1)
    h_bar = np.bincount(guesses[kept], minlength=3) / len(kept)

    def loss(params):
        strong = log_p(params, views.strong)
        unsupervised = -sum(strong[i, q[i].argmax()] for i in kept) / 8
        p_bar = sum(jnp.exp(strong[i]) for i in kept) / len(kept)
        ours = norm(jnp.stack([p_bar[c] / h_bar[c] if h_bar[c] else 0.0 for c in range(3)]))
        fairness = sum(norm(shares / histogram)[c] * jnp.log(ours[c] + 1e-12) for c in range(3))
        return labeled_loss(params, views) + 2.5 * unsupervised + 0.7 * fairness

    assert_close(after.params, descended(state.params, loss))
    assert_close(after.memory, freematch.Memory(tau, shares, histogram))
    assert metrics["mask_rate"] == len(kept) / 8


def test_with_no_example_kept_only_labels_teach():
    views = seen()
    sure = freematch.Memory(np.asarray(1e6), *BEFORE[1:])
    algorithm, state = begin(freematch.FreeMatch(optimizer=SGD), sure)
    after, metrics = algorithm.step(state, views, jax.random.key(1))
    assert_close(after.params, descended(state.params, lambda params: labeled_loss(params, views)))
    assert metrics["fairness_loss"] == 0
