"""What tests of single steps share: views with indices, an SGD step, and trees that must be close."""

import jax
import jax.numpy as jnp
import numpy as np

from metapl import algorithms, optim
from metapl.types import Indices, Totals
from tests.algorithms.tiny import forward, tiny_network, tiny_views

RATE = 0.5
SGD = optim.Optimizer(learning_rate=RATE)
ROWS, TOTAL = np.array([3, 9, 0, 4, 11, 7, 1, 10]), 12  # the unlabelled batch, among all unlabelled examples


def seen(seed: int = 3):
    """Tiny views with a second weak and a second strong view, and with indices."""
    views = tiny_views(seed)
    indices = Indices(jnp.arange(4), jnp.asarray(ROWS), Totals(4, TOTAL))
    return views._replace(more_weak=(views.weak + 0.3,), more_strong=(views.strong - 0.2,), indices=indices)


def begin(method, memory=None, views=None, network=None):
    """The method on the tiny network, and its first state, with another memory if one is given.

    A step is one program: one after another, its operations take as long to compile as many such programs.
    """
    algorithm = algorithms.build(method, network or tiny_network(), 10)
    algorithm = algorithm._replace(step=jax.jit(algorithm.step))
    state = algorithm.init(jax.random.key(0), seen() if views is None else views, None)
    return algorithm, state if memory is None else state._replace(memory=jax.tree.map(jnp.asarray, memory))


def softmax(logits):
    powers = np.exp(np.asarray(logits))
    return powers / powers.sum(-1, keepdims=True)


def predict(params, inputs):
    """Probabilities, as fixed numbers."""
    return softmax(forward(params, inputs))


def log_p(params, inputs):
    return jax.nn.log_softmax(forward(params, inputs))


def labeled_loss(params, views, inputs=None):
    rows = log_p(params, views.labeled if inputs is None else inputs)
    return -sum(rows[i, y] for i, y in enumerate(views.labels)) / len(rows)


def descended(params, loss):
    return jax.tree.map(lambda p, g: p - RATE * g, params, jax.jit(jax.grad(loss))(params))


def assert_close(one, other):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-11), one, other)
