"""SimMatch's steps against its equations, written out, in double precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl import optim
from metapl.algorithms import simmatch
from metapl.schema import ConfigError, validate
from metapl.types import Indices, Totals
from tests.algorithms.single_steps import (
    RATE,
    SGD,
    assert_close,
    begin,
    descended,
    labeled_loss,
    log_p,
    predict,
    seen,
)
from tests.algorithms.tiny import tiny_network

pytestmark = pytest.mark.usefixtures("float64")
LABELED = np.array([4, 1, 0, 3])  # the labelled batch, among five labelled examples


def hidden(params, x):
    return jnp.tanh(x @ params["hidden"]["kernel"] + params["hidden"]["bias"])


def features_of(params, stats, inputs, *, train, key=None):
    del train, key
    return hidden(params, inputs), stats


def projection(params, head, x):
    z = hidden(params, x) @ head["dense0"]["kernel"] + head["dense0"]["bias"]
    z = jnp.maximum(z, 0) @ head["dense1"]["kernel"] + head["dense1"]["bias"]
    return z / jnp.linalg.norm(z, axis=-1, keepdims=True)


def test_steps_by_hand():
    views = seen()._replace(indices=Indices(jnp.asarray(LABELED), jnp.arange(8), Totals(5, 8)))
    method = simmatch.SimMatch(
        2.5, 0.7, threshold=0.6, mixture=0.8, temperature=0.3, width=4, average=0.9, decay=0.6, optimizer=SGD
    )
    network = tiny_network()._replace(features=features_of)
    algorithm, state = begin(method, views=views, network=network)
    shares = np.full(3, 1 / 3)
    for t in range(3):
        after, metrics = algorithm.step(state, views, jax.random.key(t))
        old, theta, phi = state.memory, state.params, state.memory.head.params
        bank = np.zeros((5, 4))
        bank[LABELED] = projection(old.teacher.params, old.teacher_head, views.labeled)
        owner = {j: int(views.labels[i]) for i, j in enumerate(LABELED)}  # example 2 has never been seen
        p = predict(old.teacher.params, views.weak)
        shares = 0.9 * shares + 0.1 * p.mean(0)
        p = p * (1 / 3 + 1e-6) / (shares + 1e-6)
        p /= p.sum(-1, keepdims=True)
        s = np.exp(np.asarray(projection(old.teacher.params, old.teacher_head, views.weak)) @ bank.T / 0.3)
        s[:, 2] = 0
        s /= s.sum(-1, keepdims=True)
        p_hat, s_hat = 0.8 * p, np.zeros_like(s)
        for j, label in owner.items():
            p_hat[:, label] += 0.2 * s[:, j]
            s_hat[:, j] = s[:, j] * p[:, label]
        s_hat /= s_hat.sum(-1, keepdims=True)
        kept = [i for i in range(8) if p_hat[i].max() >= 0.6]
        assert 0 < len(kept) < 8

        def instance(params, head, bank=bank, s_hat=s_hat, owner=owner):
            found = projection(params, head, views.strong) @ bank.T / 0.3
            some = list(owner)
            found = jax.nn.log_softmax(found[:, np.array(some)])
            return -sum(s_hat[i, j] * found[i, k] for i in range(8) for k, j in enumerate(some)) / 8

        def loss(params, phi=phi, kept=kept, p_hat=p_hat, instance=instance):
            strong = log_p(params, views.strong)
            unsupervised = -sum(jnp.sum(p_hat[i] * strong[i]) for i in kept) / 8
            return labeled_loss(params, views) + 2.5 * unsupervised + 0.7 * instance(params, phi)

        student, kept_share = descended(theta, loss), min(1 - 1 / (t + 2), 0.6)
        gradient = jax.jit(jax.grad(lambda head, theta=theta, of=instance: of(theta, head)))(phi)
        head = jax.tree.map(lambda w, g: w - RATE * g, phi, gradient)
        assert_close(after.params, student)
        assert_close(after.memory.head.params, head)
        averages = jax.tree.map(
            lambda a, w, b=kept_share: b * a + (1 - b) * w, (old.teacher.params, old.teacher_head), (student, head)
        )
        assert_close((after.memory.teacher.params, after.memory.teacher_head), averages)
        np.testing.assert_array_equal(after.memory.bank_labels, [2, 1, -1, 0, 0])
        np.testing.assert_allclose(metrics["instance_loss"], instance(theta, phi))
        state = after
    assert algorithm.predictor(state) is state.memory.teacher


def test_a_second_average_is_refused():
    with pytest.raises(ConfigError, match="the teacher is the average"):
        validate(simmatch.SimMatch(optimizer=optim.Optimizer(average_decay=0.9)))
