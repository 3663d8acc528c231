"""A network of one hidden layer in double precision, and views of random points: small enough to write steps out."""

import jax
import jax.numpy as jnp

from metapl.types import Array, Network, PyTree, Views, Weights

CLASSES = 3


def hidden_layer(params: PyTree, inputs: Array) -> Array:
    return jnp.tanh(inputs @ params["hidden"]["kernel"] + params["hidden"]["bias"])


def forward(params: PyTree, inputs: Array) -> Array:
    return hidden_layer(params, inputs) @ params["out"]["kernel"] + params["out"]["bias"]


def draw(key: Array) -> PyTree:
    keys = jax.random.split(key, 4)
    return {
        "hidden": {"kernel": jax.random.normal(keys[0], (2, 5)), "bias": jax.random.normal(keys[1], (5,))},
        "out": {"kernel": jax.random.normal(keys[2], (5, CLASSES)), "bias": jax.random.normal(keys[3], (CLASSES,))},
    }


def tiny_network() -> Network:
    def init(key, inputs):
        del inputs
        return Weights(draw(key), {})

    def apply(params, stats, inputs, *, train, key=None):
        del train, key
        return forward(params, inputs), stats

    def features(params, stats, inputs, *, train, key=None):
        del train, key
        return hidden_layer(params, inputs), stats

    return Network(init, apply, with_dropout=lambda rate: tiny_network(), features=features)


def tiny_views(seed: int = 3) -> Views:
    keys = jax.random.split(jax.random.key(seed), 4)
    x_l, x_u = jax.random.normal(keys[0], (4, 2)), jax.random.normal(keys[1], (8, 2))
    labels = jnp.array([0, 1, 2, 0])
    more, own = jax.random.normal(keys[2], x_u.shape), jax.random.normal(keys[3], x_l.shape)
    return Views(x_l, labels, x_u, x_u + 0.5 * more, labeled_strong=x_l + 0.5 * own)
