"""Make a network in training and update it: shared by all methods, so that they differ only in their losses."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax

from metapl.optim import Descent
from metapl.types import Array, Learner, LossTerms, MethodLoss, Metrics, Network, PyTree, Views, Weights


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


def minimize(
    loss: MethodLoss, optimizer: Descent, learner: Learner, views: Views, key: Array
) -> tuple[Learner, Metrics]:
    """θ' = θ − η ∇_θ [labelled term + unlabelled terms]: the whole step of a method with one network."""

    def total(params: PyTree) -> tuple[Array, LossTerms]:
        terms = loss(params, learner, views, key)
        return terms.labeled + terms.unlabeled, terms

    gradient, terms = jax.grad(total, has_aux=True)(learner.params)
    learner = update(learner, optimizer, gradient, terms.stats)
    return learner, terms.metrics | {"gradient_norm": optax.tree.norm(gradient)}


def update(learner: Learner, optimizer: Descent, gradient: PyTree, stats: PyTree) -> Learner:
    """θ' = θ + the optimizer's update for the gradient; `stats` are those of the forward pass."""
    updates, opt_state = optimizer.update(gradient, learner.opt_state, learner.params)
    weights, t = Weights(optax.apply_updates(learner.params, updates), stats), learner.updates + 1
    return Learner(*weights, opt_state, _next_average(learner.average, weights, optimizer.average_decay, t), t)


def _next_average(average: Weights | None, weights: Weights, decay: float, t: Array | int) -> Weights | None:
    """After update t: a' = β a + (1 − β) θ', with β = min(decay, (1 + t) / (10 + t)).

    The early β is TensorFlow's: it forgets the first weights fast. Statistics are averaged along with the parameters,
    since those of θ' do not fit the average.
    """
    if average is None:
        return None
    share = 1 - jnp.minimum(decay, (1 + t) / (10 + t))
    return optax.incremental_update(weights, average, share)


def moved(learner: Learner, optimizer: Descent, gradient: PyTree, whole: PyTree | None = None) -> PyTree:
    """u(g) − u(0): how the update differs from the one that it would be without g; −η g for SGD.

    If g is a term of the `whole` gradient: u(whole) − u(whole − g).
    """
    whole = gradient if whole is None else whole
    rest = optax.tree.sub(whole, gradient)
    with_g, without = (optimizer.update(g, learner.opt_state, learner.params)[0] for g in (whole, rest))
    return optax.tree.sub(with_g, without)


def descend(learner: Learner, optimizer: Descent, gradient: PyTree) -> Callable[[PyTree], PyTree]:
    """Return v ↦ −(∂update/∂gradient)ᵀ v: pull v back through the optimizer. It is η v for SGD."""

    def pull_back(v: PyTree) -> PyTree:
        _, vjp = jax.vjp(lambda g: optimizer.update(g, learner.opt_state, learner.params)[0], gradient)
        return jax.tree.map(lambda leaf: -leaf, vjp(v)[0])

    return pull_back
