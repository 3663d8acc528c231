"""Temporal Ensembling's steps against its equations, written out, in double precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl.algorithms import temporal_ensembling
from tests.algorithms.single_steps import ROWS, SGD, TOTAL, assert_close, begin, descended, labeled_loss, predict, seen
from tests.algorithms.tiny import forward

pytestmark = pytest.mark.usefixtures("float64")


def test_steps_by_hand():
    """In the second step half of the batch is new: it counts as 0."""
    views = seen()
    method = temporal_ensembling.TemporalEnsembling(20.0, momentum=0.7, ramp_steps=2, optimizer=SGD)
    algorithm, state = begin(method)
    past = {n: [] for n in range(TOTAL)}
    for t in range(4):
        rows = ROWS if t != 1 else np.array([3, 9, 0, 4, 2, 5, 6, 8])
        views = views._replace(indices=views.indices._replace(unlabeled=jnp.asarray(rows)))
        after, metrics = algorithm.step(state, views, jax.random.key(t))
        targets = {}
        for i, n in enumerate(rows):
            if past[n]:
                weights = [0.3 * 0.7 ** (len(past[n]) - 1 - k) for k in range(len(past[n]))]
                targets[i] = sum(w * z for w, z in zip(weights, past[n], strict=True)) / sum(weights)

        def loss(params, targets=targets, t=t, views=views):
            factor = 20.0 * np.exp(-5 * (1 - min(1, t / 2)) ** 2)
            z = jax.nn.softmax(forward(params, views.weak))
            return labeled_loss(params, views) + factor * sum(
                jnp.sum((z[i] - target) ** 2) for i, target in targets.items()
            ) / (8 * 3)

        assert_close(after.params, descended(state.params, loss))
        assert (metrics["consistency_loss"] > 0) == (t > 0)
        for n, z in zip(rows, predict(state.params, views.weak), strict=True):
            past[n].append(z)
        state = after
    np.testing.assert_array_equal(state.memory.seen, [len(past[n]) for n in range(TOTAL)])
