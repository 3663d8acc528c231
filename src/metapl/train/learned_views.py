"""Strong views that learn while a method trains (augment/strong.py): what they remember is a part of the state.

    views  = views of the batch, distorted by what the memory m allows
    ω      = 1 − ½ ‖ f(x̂_l; θ) − onehot(y_l) ‖₁              x̂_l: x_l, distorted; θ: the weights that are evaluated
    state  ← the method's step on the views,   m ← learn(m, ω)

A method knows nothing of it: it is given views. So every method that learns from labels can have such views.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from metapl.augment import views
from metapl.augment.strong import LEARNING, Learning
from metapl.augment.views import Augmentation
from metapl.system import sharding
from metapl.types import Algorithm, Array, Batch, Labeler, Metrics, Network, PyTree, Views, Weights

RATED = 200  # folded into the key of the views: far from the numbers that views use

MakeViews = Callable[[Batch, Array, PyTree], Views]  # (batch, key, memory of the strong view or None)


class Viewed(NamedTuple):
    """The state of a method, and what its strong views have learnt."""

    method: PyTree
    memory: PyTree


class OnBatches(NamedTuple):
    """A method together with its views: an `Algorithm` that is given batches, and a key for the views."""

    init: Callable[[Array, Batch, Array, Weights | None], PyTree]
    step: Callable[[PyTree, Batch, Array, Array], tuple[PyTree, Metrics]]


def on_batches(
    algorithm: Algorithm, network: Network, config: Augmentation, make: MakeViews, batch: Batch
) -> OnBatches:
    """Return the method on batches like this one; strong views of points do not learn."""
    its = LEARNING.get(type(config.strong)) if views.is_picture(batch.labeled) else None
    return _plain(algorithm, make) if its is None else _learning(algorithm, network, config, make, its)


def predictor(algorithm: Algorithm) -> Callable[[PyTree], Weights]:
    """Return the function from a state, with or without views that learn, to the weights that are evaluated."""
    return lambda state: algorithm.predictor(own(state))


def labeler(algorithm: Algorithm) -> Labeler | None:
    """Return who gives the pseudo labels, for states with or without views that learn."""
    its = algorithm.labeler
    return None if its is None else its._replace(weights=lambda state: its.weights(own(state)))


def own(state: PyTree) -> PyTree:
    """Return the method's own state."""
    return state.method if isinstance(state, Viewed) else state


def _plain(algorithm: Algorithm, make: MakeViews) -> OnBatches:
    def init(key: Array, batch: Batch, view_key: Array, start: Weights | None) -> PyTree:
        return algorithm.init(key, make(batch, view_key, None), start)

    def step(state: PyTree, batch: Batch, view_key: Array, key: Array) -> tuple[PyTree, Metrics]:
        return algorithm.step(state, make(batch, view_key, None), key)

    return OnBatches(init, step)


def _learning(
    algorithm: Algorithm, network: Network, config: Augmentation, make: MakeViews, its: Learning
) -> OnBatches:
    def init(key: Array, batch: Batch, view_key: Array, start: Weights | None) -> Viewed:
        memory = its.start(config.strong)
        return Viewed(algorithm.init(key, make(batch, view_key, memory), start), memory)

    def step(state: Viewed, batch: Batch, view_key: Array, key: Array) -> tuple[Viewed, Metrics]:
        rated_key = jax.random.fold_in(view_key, RATED)
        rated, drawn = views.rated_views(config, sharding.by_examples(batch).labeled, rated_key)
        weights = algorithm.predictor(state.method)
        logits, _ = network.apply(*weights, sharding.as_networks_see(rated), train=False)
        omega = closeness(logits, batch.labels)
        method, metrics = algorithm.step(state.method, make(batch, view_key, state.memory), key)
        memory = its.learn(config.strong, state.memory, drawn, omega)
        return Viewed(method, memory), metrics | {"rated_closeness": jnp.mean(omega)}

    return OnBatches(init, step)


def closeness(logits: Array, labels: Array) -> Array:
    """ω = 1 − ½ ‖ p − onehot(y) ‖₁ of each example, which is p_y: [B]."""
    return jnp.take_along_axis(jax.nn.softmax(logits), labels[:, None], axis=-1)[:, 0]
