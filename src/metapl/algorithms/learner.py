"""A learner's birth and its one update: shared by all methods, so that they differ only in their losses."""

from collections.abc import Callable

import jax
import optax

from metapl.types import Array, Learner, Network, PyTree, Weights


def create(
    network: Network,
    optimizer: optax.GradientTransformation,
    key: Array,
    inputs: Array,
    start: Weights | None = None,
) -> Learner:
    """Make a learner with fresh weights, or with those of `start`."""
    params, stats = network.init(key, inputs) if start is None else start
    return Learner(params, stats, optimizer.init(params))


def update(learner: Learner, optimizer: optax.GradientTransformation, gradient: PyTree, stats: PyTree) -> Learner:
    """θ' = θ + the optimizer's answer to the gradient; the statistics are those of the forward pass."""
    updates, opt_state = optimizer.update(gradient, learner.opt_state, learner.params)
    return Learner(optax.apply_updates(learner.params, updates), stats, opt_state)


def descend(learner: Learner, optimizer: optax.GradientTransformation, gradient: PyTree) -> Callable[[PyTree], PyTree]:
    """v ↦ −(∂update/∂gradient)ᵀ v: how a change of the gradient lowers what v is the gradient of; η v for SGD."""

    def pull_back(v: PyTree) -> PyTree:
        _, vjp = jax.vjp(lambda g: optimizer.update(g, learner.opt_state, learner.params)[0], gradient)
        return jax.tree.map(lambda leaf: -leaf, vjp(v)[0])

    return pull_back
