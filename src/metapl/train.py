"""The one loop: for every stage, for every piece of its steps, `state, totals = advance(state, totals, …)`.

Randomness is a function of (seed, stage, step), and sums of metrics go on from piece to piece, so no number depends on
how the loop is cut. Several seeds train at once: the same steps under `vmap`, with a data set and a state for each seed
along the leading axis. Seeds that train one after another share a `Program`, so that they compile once.
"""

import bisect
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from metapl import algorithms, distributions, models, processes, sharding
from metapl.augment import views
from metapl.config import Config, Stage
from metapl.data import feed as feeds
from metapl.data import loader
from metapl.data.dataset import Dataset
from metapl.data.feed import Feed, StoredAnswers
from metapl.distributions import Counting, Teacher
from metapl.models.microbatches import in_parts
from metapl.pace import Pace
from metapl.schema import ConfigError
from metapl.scores import over_known, score
from metapl.sharding import SINGLE, Layout
from metapl.types import Array, Batch, DistributionsConfig, Keep, Labeler, Metrics, Network, PyTree, Views, Weights
from metapl.weights import load, starting_from

Watch = Callable[[int, int, Metrics], None]  # (stage, steps done, means since the last call)
Tell = Callable[[str], None]  # a sentence for the user
Answers = loader.Answers | None
Data = loader.Resident | loader.Piece  # a training set on the device, or the part of it that the next steps need


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
    answers: loader.Answers | StoredAnswers | None  # what a corrector is shown


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
    answers: (
        loader.Answers | StoredAnswers | None
    )  # what the stage learns from, if it is the answers of the stage before's network


class Resumed(NamedTuple):
    """Where a run goes on that was saved there."""

    stage: int
    step: int
    restore: Callable[[PyTree], PyTree]  # the shapes and places of (state, totals) -> their values


Between = Callable[[Snapshot], None]  # called between two pieces of steps: saves the run if it is time; may raise


class StageProgram(NamedTuple):
    """One stage's functions.

    All that differs between seeds has a leading axis: states, totals, keys, a teacher's answers, and the data if each
    seed has its own.
    """

    init: Any  # (keys, weights, answers, data, pretrained) -> state; fresh networks start from `pretrained`, if any
    zeros: Any  # (state, keys, answers, data) -> totals of no steps
    advance: Any  # (state, totals, keys, answers, data, first, last) -> (state, totals); the state is given away
    predictor: Callable[[PyTree], Weights]  # which of a state's weights are evaluated and handed on
    labeler: Labeler | None  # who gives the pseudo labels, where they change
    longest: int  # how many steps `advance` can do at a time


class Program(NamedTuple):
    """What is compiled, once for all the seeds that train one after another in groups of one size."""

    networks: tuple[Network, ...]  # each stage's
    own_data: bool  # has each seed data of its own?
    stages: tuple[StageProgram, ...]
    layout: Layout  # who computes it


def prepare(config: Config, datasets: Sequence[Dataset]) -> Program:
    """Make the program for these settings and the data sets of all seeds."""
    own_data = any(dataset is not datasets[0] for dataset in datasets)
    networks = tuple(models.build(model, len(datasets[0].class_names)) for model in config.stage_models)
    pairs = zip(config.stages, networks, strict=True)
    layout = sharding.layout(config.parallel, batches(config), parts=parts(config))
    stages = tuple(stage_functions(config, stage, network, own_data, layout) for stage, network in pairs)
    return Program(networks, own_data, stages, layout)


def batches(config: Config) -> dict[str, int]:
    """How large the batches are that methods look at, by the names of their settings."""
    sizes = {}
    for index, stage in enumerate(config.stages):
        sizes[f"stages.{index}.labeled_batch"] = stage.labeled_batch
        if stage.method.uses_unlabeled:
            sizes[f"stages.{index}.unlabeled_batch"] = stage.unlabeled_batch
    return sizes


def parts(config: Config) -> dict[str, int]:
    """How much of the batches networks see at once, where that is less."""
    return {
        f"{name} / microbatches": size // stage.microbatches
        for index, stage in enumerate(config.stages)
        if stage.microbatches > 1
        for name, size in batches(config).items()
        if name.startswith(f"stages.{index}.")
    }


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

    weights: Weights | None = None
    for index in range(resumed.stage if resumed else 0, len(config.stages)):
        stage, functions, network = config.stages[index], program.stages[index], program.networks[index]
        answers = None
        if isinstance(stage.method, DistributionsConfig):
            answers = answers_for(config, program, index, stage.method.keep, weights, seeds, datasets, folder, counting)
            weights = None  # all that held the large network: its memory is free before the next one is made
        keys = jax.vmap(jax.random.fold_in, (0, None))(seed_keys, index)
        fresh = pretrained if config.stage_models[index] == config.model else None
        first = min(resumed.step if resumed else 0, stage.steps - 1)
        with feeding(stage, datasets[0], resident, answers, keys, first, layout) as feed:
            state, totals, step = begin(functions, keys, weights, feed.answers, feed.at(first), fresh, resumed, layout)
            weights = resumed = None  # the state has what it needs of them
            nothing = functions.zeros(state, keys, feed.answers, feed.at(first))
            examined = examinations(config, index) if examine else set()
            reports = sorted(borders(stage.steps, config.log_every_steps) | examined)
            noted = record.moments[index] if record and functions.labeler else ()
            stops = sorted({*reports, *noted, *config.checkpoint.steps(stage.steps)})
            pace, longest = Pace(), min(feed.longest, functions.longest)
            while step < stage.steps:
                steps = 1 if longest == 1 else processes.same(pace.steps)
                last = min(step + steps, following(stops, step))
                state, totals = functions.advance(state, totals, keys, feed.answers, feed.at(step), step, last)
                pace.follow(last - step, totals)
                step = last
                if step in reports:
                    metrics, totals = means(totals, step - before(reports, step)), nothing
                    if examine and step in examined:
                        metrics |= examine(index, step, Trained(network, functions.predictor(state), layout))
                    watch(index, step, metrics)
                if record and functions.labeler and step in noted:
                    record.note(index, step, labeling(functions.labeler, network, state, answers, layout))
                between(Snapshot(index, step, state, totals, answers))
        weights = functions.predictor(state)
        del state
    assert weights is not None  # a config has at least one stage
    return Trained(program.networks[-1], weights, layout)


def labeling(
    labeler: Labeler,
    network: Network,
    state: PyTree,
    answers: loader.Answers | StoredAnswers | None,
    layout: Layout,
) -> Labeling:
    """Show who labels now; all of it is the state's own, which the next steps take away."""
    return Labeling(labeler, Trained(labeler.corrector or network, labeler.weights(state), layout), answers)


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
    answers: Answers,
    data: Data,
    pretrained: Weights | None,
    resumed: Resumed | None,
    layout: Layout,
) -> tuple[PyTree, Metrics, int]:
    """Make a stage's state, totals and first step, or take those that were saved."""
    if resumed is None:
        state = layout.settle(functions.init(keys, weights, answers, data, pretrained), leading=1)
        return state, functions.zeros(state, keys, answers, data), 0
    like = jax.eval_shape(functions.init, keys, weights, answers, data, pretrained)
    shapes = like, jax.eval_shape(functions.zeros, like, keys, answers, data)
    state, totals = resumed.restore(layout.placed(shapes, leading=1))
    return state, totals, resumed.step


def answers_for(
    config: Config,
    program: Program,
    stage: int,
    keep: Keep,
    weights: Weights | None,
    seeds: Sequence[int],
    datasets: Sequence[Dataset],
    folder: Path | None,
    counting: Counting,
) -> loader.Answers | StoredAnswers:
    """Have the stage before's network answer for the training set, on disk even if no one keeps the files.

    A stage that was left in its middle has its answers there already, and the network is gone.
    """
    with tempfile.TemporaryDirectory() as scratch:
        stem = answers_stem(folder or Path(scratch), stage)
        if weights is None:
            return distributions.stored(seeds, keep, stem, to_device=not datasets[0].from_files)
        network = program.networks[stage - 1]
        teacher = Teacher(config.stage_models[stage - 1], network, weights, config.augmentation, program.layout)
        return distributions.answers(teacher, seeds, datasets, keep, stem, counting)


def answers_stem(folder: Path, stage: int) -> Path:
    """What the files are called that hold what a stage learns from."""
    return folder / f"distributions-stage{stage - 1}"


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


@contextmanager
def feeding(
    stage: Stage,
    dataset: Dataset,
    resident: loader.Resident | None,
    answers: loader.Answers | StoredAnswers | None,
    keys: Array,
    first: int,
    layout: Layout = SINGLE,
) -> Iterator[Feed]:
    """Give the stage's batches from step `first` on: from what is on the device, or else from files."""
    if resident is not None:
        assert not isinstance(answers, StoredAnswers)
        yield feeds.resident(resident, layout.put(answers))
        return
    assert not isinstance(answers, loader.Answers)
    dataset = feeds.labeled_only(dataset) if stage.unlabeled == "labeled" else dataset
    _, order_key, _ = jax.random.split(keys[0], 3)
    sizes = stage.labeled_batch, stage.unlabeled_batch
    alone, balanced = not stage.method.uses_unlabeled, stage.labeled_sampling == "balanced"
    with feeds.from_files(dataset, order_key, sizes, stage.steps, first, answers, alone, balanced, layout) as feed:
        yield feed


def on_device(
    config: Config, program: Program, seeds: Sequence[int], datasets: Sequence[Dataset]
) -> loader.Resident | None:
    """Put the training data where the steps run, unless they are fed from files."""
    if datasets[0].from_files:
        if len(seeds) > 1:
            raise ConfigError("seeds whose pictures are fed from files train one after another, not at once")
        return None
    balanced = any(stage.labeled_sampling == "balanced" for stage in config.stages)
    return program.layout.put(to_device(datasets, program.own_data, balanced))


def to_device(datasets: Sequence[Dataset], own_data: bool, balanced: bool = False) -> loader.Resident:
    """Put the training data on the device: once if all seeds share it, else stacked."""
    if not own_data:
        return loader.resident(datasets[0], balanced)
    return jax.tree.map(lambda *parts: jnp.stack(parts), *(loader.resident(dataset, balanced) for dataset in datasets))


def stage_functions(
    config: Config, stage: Stage, network: Network, own_data: bool, layout: Layout = SINGLE
) -> StageProgram:
    """Make a stage's functions; nothing is compiled yet."""
    network = in_parts(network, stage.microbatches)
    algorithm = algorithms.build(stage.method, network, stage.steps)
    to_views = views.build(config.augmentation, stage.microbatches, layout.devices)

    def augment(batch: Batch, key: Array) -> Views:
        return sharding.as_networks_see(to_views(sharding.by_examples(batch), key))

    def batch_at(data: Data, answers: Answers, order_key: Array, step: Array) -> Batch:
        if isinstance(data, loader.Piece):
            return loader.batch_of(data, step)
        data = loader.labeled_only(data) if stage.unlabeled == "labeled" else data
        sizes = stage.labeled_batch, stage.unlabeled_batch
        return loader.batch(data, order_key, step, *sizes, answers, stage.labeled_sampling == "balanced")

    def init(key: Array, start: Weights | None, answers: Answers, data: Data, pretrained: Weights | None) -> PyTree:
        # The loaded weights come as an argument: a constant would be compiled into the program, all gigabytes of it.
        algorithm = algorithms.build(stage.method, starting_from(network, pretrained), stage.steps)
        init_key, order_key, view_key = jax.random.split(key, 3)
        first = augment(batch_at(data, answers, order_key, jnp.uint32(0)), view_key)
        return layout.keep(algorithm.init(init_key, first, start))

    def one_step(state: PyTree, key: Array, answers: Answers, data: Data, step: Array) -> tuple[PyTree, Metrics]:
        _, order_key, step_key = jax.random.split(key, 3)
        view_key, method_key = jax.random.split(jax.random.fold_in(step_key, step))
        batch = batch_at(data, answers, order_key, step)
        state, metrics = algorithm.step(state, augment(batch, view_key), method_key)
        return state, score(metrics, batch.truth)

    def zeros(state: PyTree, key: Array, answers: Answers, data: Data) -> Metrics:
        _, metrics = jax.eval_shape(one_step, state, key, answers, data, jnp.uint32(0))
        return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), metrics)

    def advance(
        state: PyTree, totals: Metrics, key: Array, answers: Answers, data: Data, first: Array, last: Array
    ) -> tuple[PyTree, Metrics]:
        def sum_up(step: Array, carry: tuple[PyTree, Metrics]) -> tuple[PyTree, Metrics]:
            state, metrics = one_step(carry[0], key, answers, data, step)
            return layout.keep(state), layout.whole(jax.tree.map(jnp.add, carry[1], metrics))

        if not network.loops:
            return sum_up(first, (state, totals))
        return jax.lax.fori_loop(first, last, sum_up, (state, totals))

    shared = 0 if own_data else 1
    return StageProgram(
        jax.jit(layout(over_seeds(init, shared=shared + 1))),
        jax.jit(layout(over_seeds(zeros, shared=shared)), out_shardings=layout.everywhere),
        jax.jit(layout(settled(over_seeds(advance, shared=shared + 2), layout)), donate_argnums=0),
        algorithm.predictor,
        algorithm.labeler,
        longest=sys.maxsize if network.loops else 1,
    )


def settled(steps: Callable[..., tuple[PyTree, Metrics]], layout: Layout) -> Callable[..., tuple[PyTree, Metrics]]:
    """Have the state that steps give be where the one was that they took: else the next ones would be compiled anew.

    What comes out of a loop, the compiler places as it likes.
    """

    def advance(*args: PyTree) -> tuple[PyTree, Metrics]:
        state, totals = steps(*args)
        return layout.keep(state, leading=1), totals

    return advance


@jax.jit
def means(totals: Metrics, steps: Array | int) -> Metrics:
    """What a report says: apart from the steps, so that it is the same however they were cut."""
    return over_known(jax.tree.map(lambda total: total / steps, totals))


def over_seeds(function: Callable[..., PyTree], shared: int) -> Callable[..., PyTree]:
    """Map over the leading axis of all arguments but the last `shared`.

    One seed goes without `vmap`, under which convolutions become grouped ones and slow.
    """

    def mapped(*args: PyTree) -> PyTree:
        own, common = args[: len(args) - shared], args[len(args) - shared :]
        if len(jax.tree.leaves(own)[0]) > 1:
            return jax.vmap(lambda *own: function(*own, *common))(*own)
        result = function(*jax.tree.map(lambda leaf: leaf[0], own), *common)
        return jax.tree.map(lambda leaf: leaf[None], result)

    return mapped
