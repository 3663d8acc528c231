"""ReMixMatch's step against its equations, written out, on tiny pictures, in double precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl.algorithms import remixmatch
from metapl.augment import mixup
from metapl.schema import ConfigError
from metapl.types import Network, Views, Weights
from tests.algorithms.single_steps import RATE, SGD, assert_close, begin, descended, softmax

pytestmark = pytest.mark.usefixtures("float64")


def features(params, x):
    return jnp.tanh(x.reshape(len(x), -1) @ params["hidden"])


def logits(params, x):
    return features(params, x) @ params["out"]


def network() -> Network:
    def init(key, inputs):
        keys = jax.random.split(key)
        hidden = jax.random.normal(keys[0], (inputs[0].size, 5))
        return Weights({"hidden": hidden, "out": jax.random.normal(keys[1], (5, 3))}, {})

    def apply(params, stats, inputs, *, train, key=None):
        del train, key
        return logits(params, inputs), stats

    def features_of(params, stats, inputs, *, train, key=None):
        del train, key
        return features(params, inputs), stats

    return Network(init, apply, with_dropout=lambda rate: network(), features=features_of)


def pictures(shape=(2, 2, 1)) -> Views:
    keys = jax.random.split(jax.random.key(3), 5)
    x_l, x_ls, x_u, x_1, x_2 = (
        jax.random.normal(key, (n, *shape)) for key, n in zip(keys, (4, 4, 6, 6, 6), strict=True)
    )
    return Views(x_l, jnp.array([0, 1, 2, 0]), x_u, x_1, x_ls, more_strong=(x_2,))


def test_one_step_by_hand():
    views, key = pictures(), jax.random.key(1)
    method = remixmatch.ReMixMatch(1.5, 0.7, 0.6, views=2, mixup=0.6, average=0.9, ramp_steps=4, optimizer=SGD)
    algorithm, state = begin(method, views=views, network=network())
    state = state._replace(updates=jnp.int32(1))
    after, metrics = algorithm.step(state, views, key)
    theta, phi = state.params, state.memory.head.params

    p = softmax(logits(theta, views.weak))
    labeled, unlabeled = 0.3 + 0.1 * np.array([0.5, 0.25, 0.25]), 0.3 + 0.1 * p.mean(0)
    q = p * (labeled + 1e-6) / (unlabeled + 1e-6)
    q = (q / q.sum(-1, keepdims=True)) ** 2
    q /= q.sum(-1, keepdims=True)
    keys = jax.random.split(key, 4)
    x = np.concatenate([views.labeled_strong, views.weak, *views.all_strong])
    y = np.concatenate([np.eye(3)[np.asarray(views.labels)], q, q, q])
    mixture = mixup.draw(keys[1], 22, 0.6, jnp.float64)
    part, order = np.maximum(mixture.part, 1 - mixture.part), np.asarray(mixture.order)
    x = part[:, None, None, None] * x + (1 - part[:, None, None, None]) * x[order]
    y = part[:, None] * y + (1 - part[:, None]) * y[order]
    r = np.asarray(jax.random.randint(jax.random.split(keys[3])[0], (6,), 0, 4))
    turned = np.stack([np.rot90(picture, k) for picture, k in zip(np.asarray(views.strong), r, strict=True)])

    def loss(params, head):
        mixed, plain = (jax.nn.log_softmax(logits(params, inputs)) for inputs in (x, views.strong))
        told = jax.nn.log_softmax(features(params, turned) @ head["dense0"]["kernel"] + head["dense0"]["bias"])
        supervised = -sum(jnp.sum(y[i] * mixed[i]) for i in range(4)) / 4
        unsupervised = -sum(jnp.sum(y[i] * mixed[i]) for i in range(4, 22)) / 18
        anchored = -sum(jnp.sum(q[i] * plain[i]) for i in range(6)) / 6
        rotation = -sum(told[i, r[i]] for i in range(6)) / 6
        return supervised + (1.5 * unsupervised + 0.7 * anchored) / 4 + 0.6 * rotation, rotation

    assert_close(after.params, descended(theta, lambda params: loss(params, phi)[0]))
    gradient = jax.jit(jax.grad(lambda head: loss(theta, head)[1]))(phi)
    assert_close(after.memory.head.params, jax.tree.map(lambda w, g: w - RATE * g, phi, gradient))
    assert_close((after.memory.labeled, after.memory.unlabeled), (labeled, unlabeled))
    np.testing.assert_allclose(metrics["rotation_loss"], loss(theta, phi)[1])


def test_pictures_that_cannot_be_turned_are_refused():
    views = pictures((2, 3, 1))
    with pytest.raises(ConfigError, match="these are 2 × 3, not square: set rotation_weight to 0"):
        begin(remixmatch.ReMixMatch(views=2), views=views, network=network())
    _, state = begin(remixmatch.ReMixMatch(views=2, rotation_weight=0.0), views=views, network=network())
    assert state.memory.head is None
