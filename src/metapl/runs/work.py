"""Work on a run, from its beginning or from a checkpoint, to its result.

A run that was killed and resumed ends with the same bits as one that was not: its numbers are a function of seed, stage
and step, and a checkpoint holds everything else that they depend on.
"""

from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
from rich.console import Console

from metapl.config import Config
from metapl.data.sources.dataset import Dataset
from metapl.data.splits.manifest import same_pictures
from metapl.evaluate import held_out
from metapl.evaluate.results import Evaluation
from metapl.guards.keeper import replay
from metapl.guards.say import guarding, note
from metapl.runs import checkpoint, journal, label_paths, runlog, sinks
from metapl.runs.result import method_name, save_weights, write_result
from metapl.runs.run_folder import RunSettings
from metapl.runs.saver import Progress, Saver, steps_done
from metapl.runs.sinks.series import Session
from metapl.schema import to_dict
from metapl.system import processes, signals, terminal
from metapl.train.groups import groups
from metapl.train.loop import Examine, Hooks, Resumed, Trained, train
from metapl.train.program import Program, prepare
from metapl.types import Listen, Metrics, Numbers

Say = Callable[[str], None]
WARNINGS = "warnings.jsonl"


@dataclass(frozen=True)
class OpenRun:
    """A run that this process works on."""

    out: Path
    settings: RunSettings
    datasets: Sequence[Dataset]  # one for each seed
    program: Program
    console: Console

    @property
    def config(self) -> Config:
        """The run's settings file."""
        return self.settings.config

    @property
    def alone(self) -> bool:
        """Whether the run has one seed only."""
        return len(self.settings.seeds) == 1

    @property
    def records_labels(self) -> bool:
        """Whether the run writes pseudo_labels.jsonl."""
        return label_paths.wanted(self.config, self.program, self.datasets[0])

    def say(self, text: str, style: str | None = None) -> None:
        """Print a sentence to the terminal."""
        terminal.say(self.console, text, style)

    def warn(self, text: str) -> None:
        """Print a warning to the terminal."""
        self.say(text, style="yellow")


class Tools(NamedTuple):
    """What is open while a run trains."""

    screen: runlog.Screen
    metrics: journal.Journal
    labels: journal.Journal
    saver: Saver


def prepared(config: Config, datasets: Sequence[Dataset], say: Say) -> Program:
    """Make the program, wait for all processes, and say how devices share the work if there are several."""
    program = prepare(config, datasets)
    if learns_from_labelled_twice(config, datasets[0]):
        say("the data have no unlabelled pictures: the labelled ones are used as such, without their labels")
    processes.barrier("start")
    program.layout.warm_up_collectives()
    if program.layout.words:
        say(program.layout.words + (f", in {processes.count()} processes" if processes.count() > 1 else ""))
    return program


def learns_from_labelled_twice(config: Config, dataset: Dataset) -> bool:
    """Whether a stage learns from unlabelled examples, and these are the labelled ones."""
    asked = any(stage.method.uses_unlabeled and stage.unlabeled == "unlabeled" for stage in config.stages)
    return asked and same_pictures(dataset.manifest or {})


def work(run: OpenRun, progress: Progress, resumed: Resumed | None = None) -> None:
    """Train the groups of seeds that are not done yet, save on the way, and write the result."""
    first = run.datasets[0]
    with (
        runlog.progress(run.console) as screen,
        signals.listening(run.say, partial(run.console.show_cursor, True)) as stop,
        closing(journal_of(run.out, progress)) as metrics,
        closing(labels_of(run, progress)) as labels,
        closing(Saver(run.out, run.config, progress, metrics, stop, run.say, labels)) as saver,
    ):
        tools = Tools(screen, metrics, labels, saver)
        slices = groups(len(run.settings.seeds), run.settings.seeds_at_once)
        for number in range(progress.group, len(slices)):
            progress.group = number
            seeds = run.settings.seeds[slices[number]]
            trained = train_group(run, tools, progress, slices[number], resumed)
            save_weights(trained, run.config, first, seeds, run.out, run.alone)
            resumed = None
    if processes.is_leader():
        write_result(run.out, run.config, progress, first.class_names, run.settings.seeds_at_once, run.console)


def train_group(run: OpenRun, tools: Tools, progress: Progress, group: slice, resumed: Resumed | None) -> Trained:
    """Train the seeds of one group, which train at once."""
    config, seeds, datasets = run.config, run.settings.seeds[group], run.datasets[group]
    first_group = progress.group == 0
    done = steps_done(config, 0, resumed.stage, resumed.step) if resumed else 0
    session = Session(run.out, to_dict(config), seeds, alone=run.alone, done=done)
    record = None
    if first_group and run.records_labels:
        record = label_paths.recorder(config, seeds[0], datasets, tools.labels)
    with sinks.opened(session, run.warn) if processes.is_leader() else nullcontext() as open_sinks:
        listeners: list[Listen] = []
        if open_sinks is not None:
            steps_before = steps_done(config, progress.group, 0, 0)
            guards = watching(run.out, config, seeds, run.datasets[0], steps_before, run.warn)
            listeners = [noting(tools.metrics, config, seeds), open_sinks, guards]
        reports = tools.screen.watch(title(config, seeds, len(run.settings.seeds)), config, done, listeners)
        hooks = Hooks(
            watch=reports,
            say=run.say if first_group else lambda _: None,  # the sentences are the same for every group
            examine=examiner(config, seeds, datasets, progress),
            record=record,
            counting=tools.saver.counting(tools.screen.counting),
            between=partial(tools.saver.between, flush=reports.flush),
        )
        return train(config, seeds, datasets, hooks, run.program, run.out, resumed)


def journal_of(out: Path, progress: Progress) -> journal.Journal:
    """Open metrics.jsonl at the checkpoint's mark; only the leader writes it."""
    return journal.Journal(out / journal.FILE, progress.mark) if processes.is_leader() else journal.Unwritten()


def labels_of(run: OpenRun, progress: Progress) -> journal.Journal:
    """Open pseudo_labels.jsonl at the checkpoint's mark, if the run records labels."""
    return label_paths.opened(run.out, progress.labels_mark, run.say) if run.records_labels else journal.Unwritten()


def noting(metrics: journal.Journal, config: Config, seeds: Sequence[int]) -> Listen:
    """Make the listener that writes each report to the journal, with the step counted within its stage."""
    starts = [steps_done(config, 0, stage, 0) for stage in range(len(config.stages))]

    def listen(stage: int, step: int, numbers: Numbers) -> None:
        metrics.write(seeds, stage, step - starts[stage], numbers)

    return listen


def watching(out: Path, config: Config, seeds: Sequence[int], dataset: Dataset, steps_before: int, warn: Say) -> Listen:
    """Make the listener that shows every report to the guards, after those in the journal of sessions before.

    `steps_before` are the steps of the groups of seeds before this one; names of checkpoints count them, too.
    """
    keeper = runlog.keeper(config, seeds, dataset)
    for alarm in replay(keeper, (out / journal.FILE).read_text("utf-8").splitlines()):
        note(alarm, out / WARNINGS)  # the earlier session may have been killed before it wrote this

    def last_good(step: int) -> str:
        newest = checkpoint.name_of(steps_before + step)
        names = [name for name in checkpoint.names(out / checkpoint.FOLDER) if name <= newest]
        kept = f"The last good checkpoint is {max(names)}" if names else "There is no earlier checkpoint"
        return f"{kept}; a resumed run would diverge again, so change the settings and start another run."

    return guarding(keeper, warn, out / WARNINGS, last_good)


def title(config: Config, group: Sequence[int], seeds: int) -> str:
    """The name of a progress bar: the method, and the seeds if there are several groups."""
    name = method_name(config)
    if len(group) == seeds:
        return name
    return f"{name}, seed {group[0]}" if len(group) == 1 else f"{name}, seeds {group[0]}–{group[-1]}"


def examiner(config: Config, seeds: Sequence[int], datasets: Sequence[Dataset], progress: Progress) -> Examine:
    """Make the function that evaluates the weights: it notes every score in `progress` and reports the main ones."""

    def examine(stage: int, step: int, trained: Trained) -> Metrics:
        examined = held_out.examine(trained, config.augmentation, datasets)
        for seed, (test, confusion, val) in zip(seeds, examined, strict=True):
            progress.history.append(Evaluation(seed, stage, step, test, val))
            progress.confusions[seed] = confusion
        metrics = {
            "test_accuracy": [scores.test.accuracy for scores in examined],
            "test_nll": [scores.test.nll for scores in examined],
            "val_accuracy": [scores.val.accuracy for scores in examined if scores.val],
        }
        return {name: jnp.asarray(values) for name, values in metrics.items() if values}

    return examine
