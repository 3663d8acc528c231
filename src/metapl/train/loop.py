"""The one loop: for every stage, for every chunk of its steps, `state, totals = advance(state, totals, …)`.

What `advance` does is compiled (`program.py`). No number depends on how the steps are cut into chunks.
"""

import bisect
import tempfile
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp

from metapl.config import Config
from metapl.data.loading.feed import Feed, StoredPredictions
from metapl.data.sources.dataset import Dataset
from metapl.inference.forward import weight_shapes
from metapl.schema import ConfigError
from metapl.scores import over_known
from metapl.start_from.find import file_of
from metapl.system import processes
from metapl.system.sharding import SINGLE, Layout
from metapl.train import stored_predictions
from metapl.train.feeding import feeding, on_device
from metapl.train.pace import ChunkPace
from metapl.train.program import Data, Predictions, Program, StageProgram, prepare
from metapl.train.stored_predictions import Counting, Teacher
from metapl.types import Array, Keep, Labeler, Metrics, Network, PyTree, Weights
from metapl.weights import load

Watch = Callable[[int, int, Metrics], None]  # (stage, steps done, means since the last call)


class Trained(NamedTuple):
    """A trained network; `weights` have a leading axis for the seeds."""

    network: Network
    weights: Weights
    layout: Layout = SINGLE


Examine = Callable[[int, int, Trained], Metrics]  # (stage, steps done, the network so far) -> numbers for each seed


class Labeling(NamedTuple):
    """The network that gives the pseudo labels at one moment."""

    labeler: Labeler
    trained: Trained
    predictions: StoredPredictions | None  # a corrector's inputs


class Record(NamedTuple):
    """When to note the pseudo labels, and the function that notes them."""

    moments: Sequence[Collection[int]]  # for each stage, the steps after which `note` is called
    note: Callable[[int, int, Labeling], None]  # (stage, steps done, who labels)


class Snapshot(NamedTuple):
    """A run between two chunks of steps: all that its future depends on, beside its settings and data."""

    stage: int
    step: int  # steps done in this stage
    state: PyTree  # donated to the device at the next chunk
    totals: Metrics  # since the last report
    predictions: StoredPredictions | None  # those that the stage learns from, if its method uses any


class Resumed(NamedTuple):
    """The checkpoint that a run goes on from."""

    stage: int
    step: int
    restore: Callable[[PyTree], PyTree]  # (shapes and shardings of (state, totals)) -> their values


Between = Callable[[Snapshot], None]  # called between two chunks of steps: saves the run if it is time; may raise


class Hooks(NamedTuple):
    """Functions that the loop calls on its way; by default they do nothing."""

    watch: Watch = lambda *_: None  # receives every report
    say: Callable[[str], None] = lambda _: None  # receives sentences for the user
    examine: Examine | None = None  # measures the weights every `eval_every_steps` and at the end
    record: Record | None = None  # is shown who gives the pseudo labels; changes nothing
    counting: Counting = lambda *_: lambda _: None  # counts examples while a network predicts for the training set
    between: Between = lambda _: None


NO_HOOKS = Hooks()


class Training(NamedTuple):
    """What one call of `train` works with."""

    config: Config
    seeds: Sequence[int]
    datasets: Sequence[Dataset]
    program: Program
    hooks: Hooks
    folder: Path | None  # for stored predictions


def train(
    config: Config,
    seeds: Sequence[int],
    datasets: Sequence[Dataset],
    hooks: Hooks = NO_HOOKS,
    program: Program | None = None,
    folder: Path | None = None,
    resumed: Resumed | None = None,
    start_weights: Weights | None = None,
) -> Trained:
    """Train all stages, for all seeds at once, and return the last stage's network.

    Each seed has its dataset; several seeds may share one. What `hooks.examine` returns is reported with the metrics.
    `folder` keeps the predictions that a stage learns from; without it they are in a temporary folder. The first stage
    goes on from `start_weights`, which have a leading axis for the seeds, as if a stage before it had trained them.
    """
    training = Training(config, seeds, datasets, program or prepare(config, datasets), hooks, folder)
    program = training.program
    layout, resident = program.layout, on_device(config, program, seeds, datasets)
    pretrained = layout.put(pretrained_weights(config, program.networks[0], datasets[0], hooks.say))
    seed_keys = layout.put(jnp.stack([jax.random.key(seed) for seed in seeds]))

    weights = start_weights
    for index in range(resumed.stage if resumed else 0, len(config.stages)):
        stage, functions = config.stages[index], program.stages[index]
        predictions = None
        if stage.method.uses_stored_predictions:
            predictions = predictions_for(training, index, stage.method.selection, weights)
            weights = None  # the last reference to the large network: free its memory before the next one is made
        keys = jax.vmap(jax.random.fold_in, (0, None))(seed_keys, index)
        fresh = pretrained if config.stage_models[index] == config.model else None
        first = min(resumed.step if resumed else 0, stage.steps - 1)
        with feeding(stage, datasets[0], resident, predictions, keys, first, layout) as feed:
            start = begin(functions, keys, weights, feed.predictions, feed.at(first), fresh, resumed, layout)
            weights = resumed = None  # the state has what it needs of them
            state = steps_of(training, index, keys, feed, predictions, start)
        weights = functions.predictor(state)
        del start, state
    assert weights is not None  # a config has at least one stage
    return Trained(program.networks[-1], weights, layout)


def steps_of(
    training: Training,
    index: int,
    keys: Array,
    feed: Feed,
    predictions: StoredPredictions | None,
    start: tuple[PyTree, Metrics, int],
) -> PyTree:
    """Do a stage's steps from `start` (state, totals, step), and return its last state."""
    config, program, hooks = training.config, training.program, training.hooks
    stage, functions, network = config.stages[index], program.stages[index], program.networks[index]
    examine, record = hooks.examine, hooks.record
    state, totals, step = start
    zero_totals = functions.zeros(state, keys, feed.predictions, feed.at(min(step, stage.steps - 1)))
    examined = examinations(config, index) if examine else set()
    reports = sorted(borders(stage.steps, config.log_every_steps) | examined)
    noted = record.moments[index] if record and functions.labeler else ()
    stops = sorted({*reports, *noted, *config.checkpoint.steps(stage.steps)})
    pace, longest = ChunkPace(), min(feed.longest, functions.longest)
    while step < stage.steps:
        steps = 1 if longest == 1 else processes.broadcast(pace.steps)
        last = min(step + steps, following(stops, step))
        state, totals = functions.advance(state, totals, keys, feed.predictions, feed.at(step), step, last)
        pace.follow(last - step, totals)
        step = last
        if step in reports:
            metrics, totals = means(totals, step - before(reports, step)), zero_totals
            if examine and step in examined:
                metrics |= examine(index, step, Trained(network, functions.predictor(state), program.layout))
            hooks.watch(index, step, metrics)
        if record and functions.labeler and step in noted:
            record.note(index, step, labeling(functions.labeler, network, state, predictions, program.layout))
        hooks.between(Snapshot(index, step, state, totals, predictions))
    return state


def labeling(
    labeler: Labeler,
    network: Network,
    state: PyTree,
    predictions: StoredPredictions | None,
    layout: Layout,
) -> Labeling:
    """Return who labels now. Its arrays belong to the state, and the next steps overwrite them."""
    return Labeling(labeler, Trained(labeler.corrector or network, labeler.weights(state), layout), predictions)


def borders(steps: int, every: int) -> set[int]:
    """Every multiple of `every` up to `steps`, and `steps` itself."""
    return {steps, *range(every, steps, every)}


def examinations(config: Config, stage: int) -> set[int]:
    """The steps of a stage after which the weights are evaluated."""
    if config.eval_every_steps:
        return borders(config.stages[stage].steps, config.eval_every_steps)
    return {config.stages[stage].steps} if stage == len(config.stages) - 1 else set()


def following(stops: Sequence[int], step: int) -> int:
    """The first stop after a step."""
    return stops[bisect.bisect_right(stops, step)]


def before(stops: Sequence[int], step: int) -> int:
    """The last stop before a step, or 0."""
    index = bisect.bisect_left(stops, step)
    return stops[index - 1] if index else 0


def begin(
    functions: StageProgram,
    keys: Array,
    weights: Weights | None,
    predictions: Predictions,
    data: Data,
    pretrained: Weights | None,
    resumed: Resumed | None,
    layout: Layout,
) -> tuple[PyTree, Metrics, int]:
    """Return a stage's state, totals and first step: new ones, or those of a checkpoint."""
    if resumed is None:
        state = layout.reshard(functions.init(keys, weights, predictions, data, pretrained), leading=1)
        return state, functions.zeros(state, keys, predictions, data), 0
    like = jax.eval_shape(functions.init, keys, weights, predictions, data, pretrained)
    shapes = like, jax.eval_shape(functions.zeros, like, keys, predictions, data)
    state, totals = resumed.restore(layout.with_shardings(shapes, leading=1))
    return state, totals, resumed.step


def predictions_for(training: Training, stage: int, keep: Keep, weights: Weights | None) -> StoredPredictions:
    """Have the previous stage's network predict for the training set, and store that on disk.

    Without `weights` the stage was interrupted: its predictions are on disk already, and the network is gone.
    """
    config, datasets, program = training.config, training.datasets, training.program
    with tempfile.TemporaryDirectory() as scratch:
        stem = predictions_stem(training.folder or Path(scratch), stage)
        if weights is None:
            return stored_predictions.read(training.seeds, keep, stem, to_device=not datasets[0].from_files)
        network = program.networks[stage - 1]
        teacher = Teacher(config.stage_models[stage - 1], network, weights, config.augmentation, program.layout)
        return stored_predictions.predict(teacher, training.seeds, datasets, keep, stem, training.hooks.counting)


def predictions_stem(folder: Path, stage: int) -> Path:
    """How the names of the files begin that hold the predictions a stage learns from."""
    return folder / f"predictions-stage{stage - 1}"


def pretrained_weights(
    config: Config, network: Network, dataset: Dataset, say: Callable[[str], None]
) -> Weights | None:
    """Read the weights that every fresh network starts from, if the settings name a file; `say` what it lacks."""
    if not config.init_from:
        return None
    try:
        weights, note = load(file_of(config.init_from), shapes(config, network, dataset), config.init_from)
    except ConfigError as error:
        raise ConfigError(f"init_from: {error}") from None
    if note:
        say(f"init_from: {note}")
    return weights


def shapes(config: Config, network: Network, dataset: Dataset) -> Weights:
    """What the network's weights look like for such examples, without making any."""
    return weight_shapes(network, config.augmentation, dataset.labeled[:1])


@jax.jit
def means(totals: Metrics, steps: Array | int) -> Metrics:
    """A report's numbers. Computed apart from the steps, so that they do not depend on how the steps are cut."""
    return over_known(jax.tree.map(lambda total: total / steps, totals))
