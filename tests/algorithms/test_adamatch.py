"""AdaMatch's steps against its equations, written out, in double precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl.algorithms import adamatch
from tests.algorithms.single_steps import SGD, assert_close, begin, descended, seen, softmax
from tests.algorithms.tiny import forward, tiny_network

pytestmark = pytest.mark.usefixtures("float64")
BEFORE = adamatch.Memory(np.array([0.5, 0.2, 0.3]), np.array([0.3, 0.4, 0.3]))


def centred(params, inputs):
    """A network that looks at its batch, as batch norm does: it tells the two passes apart."""
    logits = forward(params, inputs)
    return logits - logits.mean(0)


def apply(params, stats, inputs, *, train, key=None):
    del train, key
    return centred(params, inputs), stats


def logits_of(params, views, key):
    """Labelled logits between those of both passes, and those of the weak and the strong view."""
    x_l = jnp.concatenate([views.labeled, views.labeled_strong])
    together = centred(params, jnp.concatenate([x_l, views.weak, views.strong]))
    r = jax.random.uniform(jax.random.split(key, 3)[2], (8, 3), jnp.float64)
    return r * together[:8] + (1 - r) * centred(params, x_l), together[8:16], together[16:]


def test_steps_by_hand():
    views = seen()
    method = adamatch.AdaMatch(2.5, threshold=0.95, average=0.9, optimizer=SGD)
    algorithm, state = begin(method, BEFORE, network=tiny_network()._replace(apply=apply))
    for t in range(3):
        key = jax.random.key(t)
        after, metrics = algorithm.step(state, views, key)
        z, weak, _ = logits_of(state.params, views, key)
        p_l, p_u = softmax(z)[:4], softmax(weak)
        labeled, unlabeled = (
            0.9 * np.asarray(old) + 0.1 * p.mean(0) for old, p in zip(state.memory, (p_l, p_u), strict=True)
        )
        q = p_u * (labeled + 1e-6) / (unlabeled + 1e-6)
        q /= q.sum(-1, keepdims=True)
        kept = [i for i in range(8) if q[i].max() >= 0.95 * p_l.max(-1).mean()]
        assert 0 < len(kept) < 8
        factor = 2.5 * (1 - np.cos(min(np.pi, 2 * np.pi * t / 10))) / 2

        def loss(params, q=q, kept=kept, factor=factor, key=key):
            z, _, strong = (jax.nn.log_softmax(logits) for logits in logits_of(params, views, key))
            supervised = -sum(z[i, y] + z[4 + i, y] for i, y in enumerate(views.labels)) / 4
            return supervised - factor * sum(jnp.sum(q[i] * strong[i]) for i in kept) / 8

        assert_close(after.params, descended(state.params, loss))
        assert_close(after.memory, adamatch.Memory(labeled, unlabeled))
        assert metrics["mask_rate"] == len(kept) / 8
        state = after
