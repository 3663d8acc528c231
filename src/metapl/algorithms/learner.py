"""A learner's birth and its one update: shared by all methods, so that they differ only in their losses."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax

from metapl.optim import Descent
from metapl.types import Array, Learner, Network, PyTree, Weights


def create(
    network: Network,
    optimizer: Descent,
    key: Array,
    inputs: Array,
    start: Weights | None = None,
) -> Learner:
    """Make a learner with fresh weights, or with those of `start`."""
    weights = network.init(key, inputs) if start is None else start
    average = weights if optimizer.average_decay else None
    return Learner(*weights, optimizer.init(weights.params), average, jnp.zeros((), jnp.int32))


def update(learner: Learner, optimizer: Descent, gradient: PyTree, stats: PyTree) -> Learner:
    """θ' = θ + the optimizer's answer to the gradient; the statistics are those of the forward pass."""
    updates, opt_state = optimizer.update(gradient, learner.opt_state, learner.params)
    weights, t = Weights(optax.apply_updates(learner.params, updates), stats), learner.updates + 1
    return Learner(*weights, opt_state, _follow(learner.average, weights, optimizer.average_decay, t), t)


def _follow(average: Weights | None, weights: Weights, decay: float, t: Array | int) -> Weights | None:
    """After update t: a' = β a + (1 − β) θ', with β = min(decay, (1 + t) / (10 + t)).

    The early β is TensorFlow's: it forgets the first weights fast. Statistics are averaged along with the parameters,
    since those of θ' do not fit the average.
    """
    if average is None:
        return None
    share = 1 - jnp.minimum(decay, (1 + t) / (10 + t))
    return optax.incremental_update(weights, average, share)


def descend(learner: Learner, optimizer: Descent, gradient: PyTree) -> Callable[[PyTree], PyTree]:
    """v ↦ −(∂update/∂gradient)ᵀ v: how a change of the gradient lowers what v is the gradient of; η v for SGD."""

    def pull_back(v: PyTree) -> PyTree:
        _, vjp = jax.vjp(lambda g: optimizer.update(g, learner.opt_state, learner.params)[0], gradient)
        return jax.tree.map(lambda leaf: -leaf, vjp(v)[0])

    return pull_back
