"""What is compiled: a stage's functions, for all the seeds that train at once.

Randomness is a function of (seed, stage, step), and the sums of metrics are carried from chunk to chunk, so no number
depends on how the steps are cut. Seeds that train at once do the same steps under `vmap`, with a dataset and a state
for each seed along the leading axis. Seeds that train one after another share a `Program`, so that it is compiled once.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from metapl import algorithms, models
from metapl.augment import views
from metapl.config import Config, Stage
from metapl.data.loading import loader
from metapl.data.sources.dataset import Dataset
from metapl.data.sources.on_disk import OnDisk
from metapl.models.microbatches import in_microbatches
from metapl.models.seeds import over_seeds
from metapl.schema import ConfigError
from metapl.scores import score
from metapl.system import sharding
from metapl.system.sharding import SINGLE, Layout
from metapl.train.learned_views import MakeViews, OnBatches, labeler, on_batches, predictor
from metapl.types import Algorithm, Array, Batch, Labeler, Metrics, Network, PyTree, Views, Weights
from metapl.weights import starting_from

Predictions = loader.PredictionsOnDevice | None
Data = loader.Resident | loader.StepBatches  # a training set on the device, or the batches of the next steps


class StageProgram(NamedTuple):
    """One stage's functions.

    What differs between seeds has a leading axis: states, totals, keys, a teacher's predictions, and the data if
    each seed has its own.
    """

    init: (
        Any  # (keys, weights, predictions, data, pretrained) -> state; fresh networks start from `pretrained`, if given
    )
    zeros: Any  # (state, keys, predictions, data) -> totals of zero steps
    advance: Any  # (state, totals, keys, predictions, data, first, last) -> (state, totals); the state is donated
    predictor: Callable[[PyTree], Weights]  # (state) -> the weights that are evaluated and passed on
    labeler: Labeler | None  # who gives the pseudo labels, where they change
    longest: int  # the most steps that one call of `advance` can do


class Program(NamedTuple):
    """What is compiled, once for all the seeds that train one after another in groups of one size."""

    networks: tuple[Network, ...]  # each stage's
    own_data: bool  # whether each seed has data of its own
    stages: tuple[StageProgram, ...]
    layout: Layout  # the devices that compute it


def prepare(config: Config, datasets: Sequence[Dataset]) -> Program:
    """Make the program for these settings and the datasets of all seeds."""
    check_unlabeled(config, datasets)
    check_two_views(config, datasets[0])
    check_examples(config, datasets)
    own_data = any(dataset is not datasets[0] for dataset in datasets)
    networks = tuple(models.build(model, len(datasets[0].class_names)) for model in config.stage_models)
    pairs = zip(config.stages, networks, strict=True)
    layout = sharding.layout(config.parallel, batches(config), microbatches=microbatch_sizes(config))
    stages = tuple(stage_functions(config, stage, network, own_data, layout) for stage, network in pairs)
    return Program(networks, own_data, stages, layout)


def check_unlabeled(config: Config, datasets: Sequence[Dataset]) -> None:
    """Raise ConfigError if a stage learns from unlabelled examples and there are none."""
    for index, stage in enumerate(config.stages):
        needed = stage.method.uses_unlabeled and stage.unlabeled == "unlabeled"
        if needed and not all(len(dataset.unlabeled) for dataset in datasets):
            raise ConfigError(
                f"stages.{index}.method: {stage.method.name} learns from unlabelled examples, and these data have "
                f"none; take supervised, or set stages.{index}.unlabeled to 'labeled'"
            )


def check_two_views(config: Config, dataset: Dataset) -> None:
    """Raise ConfigError if a stage only compares two views of an example, and they would be the same."""
    for index, stage in enumerate(config.stages):
        compares = not stage.method.uses_labels and views.counts(stage.method).strong > 1
        examples = dataset.unlabeled
        if not compares or isinstance(examples, OnDisk) or views.can_differ(config.views_of(stage), examples):
            continue
        raise ConfigError(
            f"stages.{index}.method: {stage.method.name} compares two views of each example, and these data have one: "
            "set augmentation.jitter above 0 for points, data.views to at least 2 for features"
        )


def check_examples(config: Config, datasets: Sequence[Dataset]) -> None:
    """Raise ConfigError if a stage's method cannot learn from so many examples, or from such ones."""
    for index, stage in enumerate(config.stages):
        sides = views.sides(config.views_of(stage), datasets[0].labeled)
        fewest = min(len(its.labeled if stage.unlabeled == "labeled" else its.unlabeled) for its in datasets)
        for piece in stage.method.pieces:
            if piece.needs_pictures and not sides:
                raise ConfigError(
                    f"stages.{index}.method: {piece.name} with these settings needs pictures, and these data are "
                    "features or points; choose another source, or leave out data.encoder"
                )
            try:
                piece.check_examples(fewest, sides)
            except ValueError as error:
                raise ConfigError(f"stages.{index}.method: {error}") from None


def batches(config: Config) -> dict[str, int]:
    """The sizes of the batches that methods use, by the names of their settings."""
    return {
        f"stages.{index}.{name}": size
        for index, stage in enumerate(config.stages)
        for name, size in stage_batches(stage).items()
    }


def stage_batches(stage: Stage) -> dict[str, int]:
    """The sizes of one stage's batches."""
    labeled = {"labeled_batch": stage.labeled_batch}
    return labeled | {"unlabeled_batch": stage.unlabeled_batch} if stage.method.uses_unlabeled else labeled


def microbatch_sizes(config: Config) -> dict[str, int]:
    """The sizes of the microbatches of stages that cut their batches, by names that tell how they come about."""
    return {
        f"stages.{index}.{name} / microbatches": size // stage.microbatches
        for index, stage in enumerate(config.stages)
        if stage.microbatches > 1
        for name, size in stage_batches(stage).items()
    }


def stage_functions(
    config: Config, stage: Stage, network: Network, own_data: bool, layout: Layout = SINGLE
) -> StageProgram:
    """Make a stage's functions; nothing is compiled yet."""
    network = in_microbatches(network, stage.microbatches)
    algorithm = algorithms.build(stage.method, network, stage.steps)
    augment = view_maker(config, stage, layout)

    def with_views(algorithm: Algorithm, batch: Batch) -> OnBatches:
        return on_batches(algorithm, network, config.views_of(stage), augment, batch)

    def batch_at(data: Data, predictions: Predictions, order_key: Array, step: Array) -> Batch:
        if isinstance(data, loader.StepBatches):
            return loader.batch_of(data, step)
        # Without unlabelled examples only methods that use none get here; a batch has a place for them all the same.
        data = loader.labeled_only(data) if stage.unlabeled == "labeled" or not len(data.unlabeled) else data
        sizes, balanced = (stage.labeled_batch, stage.unlabeled_batch), stage.labeled_sampling == "balanced"
        return loader.batch(data, order_key, step, *sizes, predictions, balanced, stage.method.remembers_examples)

    def init(
        key: Array, start: Weights | None, predictions: Predictions, data: Data, pretrained: Weights | None
    ) -> PyTree:
        # The loaded weights are an argument: as a constant, all their gigabytes would be compiled into the program.
        algorithm = algorithms.build(stage.method, starting_from(network, pretrained), stage.steps)
        init_key, order_key, view_key = jax.random.split(key, 3)
        batch = batch_at(data, predictions, order_key, jnp.uint32(0))
        return layout.constrain(with_views(algorithm, batch).init(init_key, batch, view_key, start))

    def one_step(
        state: PyTree, key: Array, predictions: Predictions, data: Data, step: Array
    ) -> tuple[PyTree, Metrics]:
        _, order_key, step_key = jax.random.split(key, 3)
        view_key, method_key = jax.random.split(jax.random.fold_in(step_key, step))
        batch = batch_at(data, predictions, order_key, step)
        state, metrics = with_views(algorithm, batch).step(state, batch, view_key, method_key)
        return state, score(metrics, batch.truth)

    def zeros(state: PyTree, key: Array, predictions: Predictions, data: Data) -> Metrics:
        _, metrics = jax.eval_shape(one_step, state, key, predictions, data, jnp.uint32(0))
        return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), metrics)

    def advance(
        state: PyTree, totals: Metrics, key: Array, predictions: Predictions, data: Data, first: Array, last: Array
    ) -> tuple[PyTree, Metrics]:
        def sum_up(step: Array, carry: tuple[PyTree, Metrics]) -> tuple[PyTree, Metrics]:
            state, metrics = one_step(carry[0], key, predictions, data, step)
            return layout.constrain(state), layout.replicate(jax.tree.map(jnp.add, carry[1], metrics))

        if not network.loops:
            return sum_up(first, (state, totals))
        return jax.lax.fori_loop(first, last, sum_up, (state, totals))

    shared = 0 if own_data else 1
    return StageProgram(
        jax.jit(layout(over_seeds(init, shared=shared + 1))),
        jax.jit(layout(over_seeds(zeros, shared=shared)), out_shardings=layout.everywhere),
        jax.jit(layout(with_placement_kept(over_seeds(advance, shared=shared + 2), layout)), donate_argnums=0),
        predictor(algorithm),
        labeler(algorithm),
        longest=sys.maxsize if network.loops else 1,
    )


def view_maker(config: Config, stage: Stage, layout: Layout) -> MakeViews:
    """Make the function from a batch, a key and what the strong view has learnt to views, on their devices."""
    to_views = views.build(config.views_of(stage), stage.microbatches, layout.devices, views.counts(stage.method))

    def augment(batch: Batch, key: Array, memory: PyTree) -> Views:
        return sharding.as_networks_see(to_views(sharding.by_examples(batch), key, memory))

    return augment


def with_placement_kept(
    steps: Callable[..., tuple[PyTree, Metrics]], layout: Layout
) -> Callable[..., tuple[PyTree, Metrics]]:
    """Keep the state on the devices where it was; otherwise the next steps would be compiled again.

    The compiler chooses freely where it places what comes out of a loop.
    """

    def advance(*args: PyTree) -> tuple[PyTree, Metrics]:
        state, totals = steps(*args)
        return layout.constrain(state, leading=1), totals

    return advance
