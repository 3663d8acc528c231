"""The one loop: for every stage, for every piece of its steps, `state, totals = advance(state, totals, …)`.

What `advance` does is compiled (`program.py`); no number depends on how the loop is cut.
"""

import bisect
import tempfile
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp

from metapl.augment import views
from metapl.config import Config
from metapl.data.loading.feed import Feed, StoredPredictions
from metapl.data.sources.dataset import Dataset
from metapl.scores import over_known
from metapl.system import processes
from metapl.system.sharding import SINGLE, Layout
from metapl.train import stored_predictions
from metapl.train.feeding import feeding, on_device
from metapl.train.pace import Pace
from metapl.train.program import Data, Predictions, Program, StageProgram, prepare
from metapl.train.stored_predictions import Counting, Teacher
from metapl.types import Array, Keep, Labeler, Metrics, Network, PyTree, Weights
from metapl.weights import load

Watch = Callable[[int, int, Metrics], None]  # (stage, steps done, means since the last call)
Tell = Callable[[str], None]  # a sentence for the user


class Trained(NamedTuple):
    """What a run leaves behind; `weights` have a leading axis for the seeds."""

    network: Network
    weights: Weights
    layout: Layout = SINGLE


Examine = Callable[[int, int, Trained], Metrics]  # (stage, steps done, what there is so far) -> numbers for each seed


class Labeling(NamedTuple):
    """Who gives the pseudo labels at one time."""

    labeler: Labeler
    trained: Trained
    predictions: StoredPredictions | None  # what a corrector is shown


class Record(NamedTuple):
    """Someone who wants to see who labels."""

    moments: Sequence[Collection[int]]  # after which steps of each stage
    note: Callable[[int, int, Labeling], None]  # (stage, steps done, who labels)


class Snapshot(NamedTuple):
    """A run between two pieces of its steps: all that its future depends on, beside its settings and data."""

    stage: int
    step: int  # steps done in this stage
    state: PyTree  # the loop gives it away at the next piece
    totals: Metrics  # since the last report
    predictions: (
        StoredPredictions | None
    )  # what the stage learns from, if it is the predictions of the stage before's network


class Resumed(NamedTuple):
    """Where a run goes on that was saved there."""

    stage: int
    step: int
    restore: Callable[[PyTree], PyTree]  # the shapes and places of (state, totals) -> their values


Between = Callable[[Snapshot], None]  # called between two pieces of steps: saves the run if it is time; may raise


class Listeners(NamedTuple):
    """Who is told what on the way through a stage's steps."""

    watch: Watch
    examine: Examine | None
    record: Record | None
    between: Between


def train(
    config: Config,
    seeds: Sequence[int],
    datasets: Sequence[Dataset],
    watch: Watch = lambda *_: None,
    tell: Tell = lambda _: None,
    examine: Examine | None = None,
    program: Program | None = None,
    counting: Counting = lambda *_: lambda _: None,
    folder: Path | None = None,
    between: Between = lambda _: None,
    resumed: Resumed | None = None,
    record: Record | None = None,
) -> Trained:
    """Run all stages, for all seeds at once; each seed has its data set, which may be the same one for all.

    `examine` looks at the weights every `eval_every_steps` and at the end; what it says is reported with the metrics.
    `record` is shown who gives the pseudo labels, and changes nothing.
    What a stage's network says of the training set is stored in `folder`, if the next one learns from it.
    """
    program = program or prepare(config, datasets)
    layout, resident = program.layout, on_device(config, program, seeds, datasets)
    pretrained = layout.put(pretrained_weights(config, program.networks[0], datasets[0], tell))
    seed_keys = layout.put(jnp.stack([jax.random.key(seed) for seed in seeds]))
    listeners = Listeners(watch, examine, record, between)

    weights: Weights | None = None
    for index in range(resumed.stage if resumed else 0, len(config.stages)):
        stage, functions = config.stages[index], program.stages[index]
        predictions = None
        if stage.method.uses_stored_predictions:
            predictions = predictions_for(
                config, program, index, stage.method.selection, weights, seeds, datasets, folder, counting
            )
            weights = None  # all that held the large network: its memory is free before the next one is made
        keys = jax.vmap(jax.random.fold_in, (0, None))(seed_keys, index)
        fresh = pretrained if config.stage_models[index] == config.model else None
        first = min(resumed.step if resumed else 0, stage.steps - 1)
        with feeding(stage, datasets[0], resident, predictions, keys, first, layout) as feed:
            begun = begin(functions, keys, weights, feed.predictions, feed.at(first), fresh, resumed, layout)
            weights = resumed = None  # the state has what it needs of them
            state = steps_of(index, config, program, keys, feed, predictions, begun, listeners)
        weights = functions.predictor(state)
        del begun, state
    assert weights is not None  # a config has at least one stage
    return Trained(program.networks[-1], weights, layout)


def steps_of(
    index: int,
    config: Config,
    program: Program,
    keys: Array,
    feed: Feed,
    predictions: StoredPredictions | None,
    begun: tuple[PyTree, Metrics, int],
    listeners: Listeners,
) -> PyTree:
    """Do a stage's steps from where it begins, and give its last state."""
    stage, functions, network = config.stages[index], program.stages[index], program.networks[index]
    watch, examine, record, between = listeners
    state, totals, step = begun
    nothing = functions.zeros(state, keys, feed.predictions, feed.at(min(step, stage.steps - 1)))
    examined = examinations(config, index) if examine else set()
    reports = sorted(borders(stage.steps, config.log_every_steps) | examined)
    noted = record.moments[index] if record and functions.labeler else ()
    stops = sorted({*reports, *noted, *config.checkpoint.steps(stage.steps)})
    pace, longest = Pace(), min(feed.longest, functions.longest)
    while step < stage.steps:
        steps = 1 if longest == 1 else processes.broadcast(pace.steps)
        last = min(step + steps, following(stops, step))
        state, totals = functions.advance(state, totals, keys, feed.predictions, feed.at(step), step, last)
        pace.follow(last - step, totals)
        step = last
        if step in reports:
            metrics, totals = means(totals, step - before(reports, step)), nothing
            if examine and step in examined:
                metrics |= examine(index, step, Trained(network, functions.predictor(state), program.layout))
            watch(index, step, metrics)
        if record and functions.labeler and step in noted:
            record.note(index, step, labeling(functions.labeler, network, state, predictions, program.layout))
        between(Snapshot(index, step, state, totals, predictions))
    return state


def labeling(
    labeler: Labeler,
    network: Network,
    state: PyTree,
    predictions: StoredPredictions | None,
    layout: Layout,
) -> Labeling:
    """Show who labels now; all of it is the state's own, which the next steps take away."""
    return Labeling(labeler, Trained(labeler.corrector or network, labeler.weights(state), layout), predictions)


def borders(steps: int, every: int) -> set[int]:
    """Where to stop on the way through a stage's steps: at each multiple, and at the end."""
    return {steps, *range(every, steps, every)}


def examinations(config: Config, stage: int) -> set[int]:
    """After which steps of a stage the weights are looked at."""
    if config.eval_every_steps:
        return borders(config.stages[stage].steps, config.eval_every_steps)
    return {config.stages[stage].steps} if stage == len(config.stages) - 1 else set()


def following(stops: Sequence[int], step: int) -> int:
    """The first stop after a step."""
    return stops[bisect.bisect_right(stops, step)]


def before(stops: Sequence[int], step: int) -> int:
    """The last stop before a step, or the beginning."""
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
    """Make a stage's state, totals and first step, or take those that were saved."""
    if resumed is None:
        state = layout.reshard(functions.init(keys, weights, predictions, data, pretrained), leading=1)
        return state, functions.zeros(state, keys, predictions, data), 0
    like = jax.eval_shape(functions.init, keys, weights, predictions, data, pretrained)
    shapes = like, jax.eval_shape(functions.zeros, like, keys, predictions, data)
    state, totals = resumed.restore(layout.placed(shapes, leading=1))
    return state, totals, resumed.step


def predictions_for(
    config: Config,
    program: Program,
    stage: int,
    keep: Keep,
    weights: Weights | None,
    seeds: Sequence[int],
    datasets: Sequence[Dataset],
    folder: Path | None,
    counting: Counting,
) -> StoredPredictions:
    """Have the stage before's network answer for the training set, on disk even if no one keeps the files.

    A stage that was left in its middle has its predictions there already, and the network is gone.
    """
    with tempfile.TemporaryDirectory() as scratch:
        stem = predictions_stem(folder or Path(scratch), stage)
        if weights is None:
            return stored_predictions.read(seeds, keep, stem, to_device=not datasets[0].from_files)
        network = program.networks[stage - 1]
        teacher = Teacher(config.stage_models[stage - 1], network, weights, config.augmentation, program.layout)
        return stored_predictions.predict(teacher, seeds, datasets, keep, stem, counting)


def predictions_stem(folder: Path, stage: int) -> Path:
    """What the files are called that hold what a stage learns from."""
    return folder / f"predictions-stage{stage - 1}"


def pretrained_weights(config: Config, network: Network, dataset: Dataset, tell: Tell) -> Weights | None:
    """Read what every fresh network starts from, if the settings name a file; `tell` what it could not give."""
    if not config.init_from:
        return None
    weights, note = load(Path(config.init_from), shapes(config, network, dataset))
    if note:
        tell(note)
    return weights


def shapes(config: Config, network: Network, dataset: Dataset) -> Weights:
    """What the network's weights look like for such examples, without making any."""
    view = views.eval_view(config.augmentation)
    key, example = jax.random.key(0), dataset.labeled[:1]
    return jax.eval_shape(lambda key, example: network.init(key, view(example)), key, example)


@jax.jit
def means(totals: Metrics, steps: Array | int) -> Metrics:
    """What a report says: apart from the steps, so that it is the same however they were cut."""
    return over_known(jax.tree.map(lambda total: total / steps, totals))
