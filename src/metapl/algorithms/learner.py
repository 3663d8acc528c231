"""Make a network in training and update it: shared by all methods, so that they differ only in their losses."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax

from metapl import optim
from metapl.optim import Descent
from metapl.types import (
    Algorithm,
    Apply,
    Array,
    Learner,
    LossTerms,
    Metrics,
    Network,
    Objective,
    PyTree,
    Views,
    Weights,
)


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


def alone(objective: Callable[[Any, Network, int], Objective], config: Any, network: Network, steps: int) -> Algorithm:
    """Make the method that minimises an objective with its settings' `optimizer`; its state is the learner."""
    optimizer = optim.build(config.optimizer, steps)
    its = objective(config, holding(network, optimizer), steps)

    def init(key: Array, views: Views, start: Weights | None) -> Learner:
        return begin(its, create(network, optimizer, key, views.labeled, start), views, key)

    return Algorithm(init, partial(minimize, its, optimizer), its.predictor, its.labeler)


def holding(network: Network, optimizer: Descent) -> Network:
    """Return the network whose derivatives are those of the weights alone that the optimizer moves."""

    def held(function: Apply) -> Apply:
        def apply(
            params: PyTree, stats: PyTree, inputs: Array, *, train: bool, key: Array | None = None
        ) -> tuple[Array, PyTree]:
            return function(optimizer.hold(params), stats, inputs, train=train, key=key)

        return apply

    def with_dropout(rate: float) -> Network:
        return holding(network.with_dropout(rate), optimizer)

    return network._replace(apply=held(network.apply), features=held(network.features), with_dropout=with_dropout)


def begin(objective: Objective, learner: Learner, views: Views, key: Array) -> Learner:
    """Give a new learner the first memory of its method."""
    return learner._replace(memory=objective.start(learner, views, key))


def follow(objective: Objective, learner: Learner, terms: LossTerms) -> Learner:
    """Give a learner, after its update, the memory that the next step reads."""
    return learner._replace(memory=objective.follow(jax.lax.stop_gradient(terms.memory), learner))


def minimize(
    objective: Objective, optimizer: Descent, learner: Learner, views: Views, key: Array
) -> tuple[Learner, Metrics]:
    """θ' = θ − η ∇_θ [labelled term + unlabelled terms]: the whole step of a method with one network."""

    def total(params: PyTree) -> tuple[Array, LossTerms]:
        terms = objective.loss(params, learner, views, key)
        return terms.labeled + terms.unlabeled, terms

    gradient, terms = jax.grad(total, has_aux=True)(learner.params)
    updated = update(learner, optimizer, gradient, terms.stats, lambda params: jax.grad(total, has_aux=True)(params)[0])
    learner = follow(objective, updated, terms)
    return learner, terms.metrics | {"gradient_norm": optax.tree.norm(gradient)}


def update(
    learner: Learner,
    optimizer: Descent,
    gradient: PyTree,
    stats: PyTree,
    gradient_at: Callable[[PyTree], PyTree] | None = None,
) -> Learner:
    """θ' = θ + the optimizer's update for the gradient; `stats` are those of the forward pass.

    SAM also needs the gradient at other weights, by `gradient_at`; Stage.check lets it be set for no method without it.
    """
    more = {"grad_fn": lambda params, _: gradient_at(params)} if optimizer.sam and gradient_at else {}
    updates, opt_state = optimizer.update(gradient, learner.opt_state, learner.params, **more)
    weights, t = Weights(optax.apply_updates(learner.params, updates), stats), learner.updates + 1
    average = _next_average(learner.average, weights, optimizer.average_decay, t)
    return Learner(*weights, opt_state, average, t, learner.memory)


def _next_average(average: Weights | None, weights: Weights, decay: float, t: Array | int) -> Weights | None:
    """After update t: a' = β a + (1 − β) θ', with β = min(decay, (1 + t) / (10 + t)).

    The early β is TensorFlow's: it forgets the first weights fast. Statistics are averaged along with the parameters,
    since those of θ' do not fit the average.
    """
    if average is None:
        return None
    share = 1 - jnp.minimum(decay, (1 + t) / (10 + t))
    return optax.incremental_update(weights, average, share)


def classes(network: Network, learner: Learner, inputs: Array) -> int:
    """Return how many classes the network tells apart; nothing is computed."""
    logits, _ = jax.eval_shape(partial(network.apply, train=False), learner.params, learner.stats, inputs)
    return int(logits.shape[-1])


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
