"""The programs that are measured: a method's step and the network's prediction, as training and evaluation run them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from metapl import algorithms, models
from metapl.augment.views import counts
from metapl.bench.settings import Bench
from metapl.types import Array, Indices, PyTree, Totals, Views, Weights

STAGE_STEPS = 10**6  # longer than any warm-up; schedules need an end, and no measurement reaches it


class Case(NamedTuple):
    """The functions and inputs for one batch size; nothing is compiled yet."""

    init: Any  # jitted: (key, views) -> state
    step: Any  # jitted: (state, views, key) -> (state, metrics); the state is donated, as in training
    infer: Any  # jitted: (weights, inputs) -> logits, in evaluation mode
    predictor: Callable[[PyTree], Weights]
    views: Views
    key: Array


def build(bench: Bench, labeled_batch: int) -> Case:
    """Make random pictures and the functions that use them."""
    network = models.build(bench.model, bench.classes)
    algorithm = algorithms.build(bench.method, network, STAGE_STEPS)

    def init(key: Array, views: Views) -> PyTree:
        start = network.init(key, views.labeled) if bench.method.needs_start else None
        return algorithm.init(key, views, start)

    def infer(weights: Weights, inputs: Array) -> Array:
        return network.apply(weights.params, weights.stats, inputs, train=False)[0]

    key = jax.random.key(0)
    views = random_views(bench, labeled_batch, key)
    step = jax.jit(algorithm.step, donate_argnums=0)
    return Case(jax.jit(init), step, jax.jit(infer), algorithm.predictor, views, key)


def random_views(bench: Bench, labeled_batch: int, key: Array) -> Views:
    """Normal noise in the shape of pictures, with labels that use all classes equally."""

    def pictures(key: Array, number: int) -> Array:
        return jax.random.normal(key, (number, bench.size, bench.size, bench.channels))

    number, (labeled_key, weak_key, strong_key) = counts(bench.method), jax.random.split(key, 3)
    unlabeled_batch = bench.unlabeled_batch or labeled_batch
    labels = jnp.arange(labeled_batch, dtype=jnp.int32) % bench.classes
    weak, strong = pictures(weak_key, unlabeled_batch), pictures(strong_key, unlabeled_batch)
    labeled, labeled_strong = (
        pictures(key, labeled_batch) for key in (labeled_key, jax.random.fold_in(labeled_key, 1))
    )
    views = Views(labeled, labels, weak, strong, labeled_strong)
    if bench.method.remembers_examples:
        totals = Totals(labeled_batch, unlabeled_batch)
        views = views._replace(indices=Indices(jnp.arange(labeled_batch), jnp.arange(unlabeled_batch), totals))
    if bench.method.uses_stored_predictions:
        told = (jax.random.normal(key, (number, bench.classes)) for number in (labeled_batch, unlabeled_batch))
        labeled_predictions, predictions = map(jax.nn.softmax, told)
        views = views._replace(labeled_predictions=labeled_predictions, predictions=predictions)
    return views._replace(
        more_weak=tuple(pictures(jax.random.fold_in(weak_key, i), unlabeled_batch) for i in range(1, number.weak)),
        more_strong=tuple(
            pictures(jax.random.fold_in(strong_key, i), unlabeled_batch) for i in range(1, number.strong)
        ),
    )


def pictures_in_a_step(compiled: Any, views: Views) -> int:
    """Number of pictures in a step: labelled ones, and unlabelled ones if the step uses any view of them."""
    placed = compiled.input_shardings[0][1]
    unlabeled = placed.weak is not None or placed.strong is not None
    return len(views.labeled) + (len(views.weak) if unlabeled else 0)
