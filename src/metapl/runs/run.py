"""`metapl train` and `metapl resume`: a run from its settings to its result, in a folder and in any number of sessions.

A run that was killed and resumed ends with the same bits as one in one go: its numbers are a function of seed, stage
and step, and a checkpoint holds all else that they depend on.
"""

import errno
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from safetensors import SafetensorError

from metapl import data
from metapl.config import Config
from metapl.data.reading.files import Folders
from metapl.data.sources.dataset import Dataset
from metapl.evaluate import held_out, results
from metapl.evaluate.measures import per_class_accuracy
from metapl.evaluate.results import Evaluation
from metapl.guards.keeper import replay
from metapl.guards.say import guarding, note
from metapl.runs import checkpoint, journal, label_paths, run_folder, runlog, sinks
from metapl.runs.run_folder import Begun
from metapl.runs.saver import Progress, Saver, log, newest_good, progress_in, steps_done
from metapl.runs.sinks.series import Session
from metapl.schema import ConfigError, to_dict
from metapl.system import processes, signals
from metapl.system.disk import explaining_disk_errors, write_atomically
from metapl.system.lock import locked
from metapl.system.sharding import Parallel, ShareError, to_host
from metapl.train import stored_predictions
from metapl.train.groups import AtOnce, groups, seeds_together
from metapl.train.loop import Examine, Resumed, Trained, predictions_stem, train
from metapl.train.program import Program, prepare
from metapl.types import Listen, Metrics, Numbers
from metapl.weights import Example, save

Confusions = dict[int, NDArray[np.int64]]  # seed -> [right class, answer], at its last evaluation
Say = Callable[[str], None]
WARNINGS = "warnings.jsonl"


def run(config: Config, seeds: int, at_once: AtOnce, folders: Folders, out: Path, console: Console) -> None:
    """Begin a run with as many seeds as asked for, in the empty folder `out`, and work on it to its end."""
    if config.seed + seeds > 2**32:
        raise ConfigError(f"the last seed would be {config.seed + seeds - 1}, above {2**32 - 1}")
    sinks.require(to_dict(config))
    numbers = list(range(config.seed, config.seed + seeds))
    say = partial(console.print, highlight=False, markup=False, soft_wrap=True)
    datasets = data.load(config.data, numbers, folders, say)
    if not len(datasets[0].test):
        raise ConfigError("the data have no test part: there would be nothing to measure the result on")
    program = prepared(config, datasets, say)
    together = seeds_together(at_once, seeds, config, program, datasets[0])
    begun = Begun(config, tuple(numbers), together, folders)
    with locked(out) if processes.is_leader() else nullcontext():
        processes.leader_decides(lambda: run_folder.write(out, begun, datasets[0].manifest))
        processes.check_visible(out / run_folder.CONFIG)
        if not processes.is_leader():  # another machine's files may be other ones
            run_folder.check_data(out, datasets[0])
        log(out, "began", pid=os.getpid())
        work(out, begun, datasets, program, Progress(), None, console)


def prepared(config: Config, datasets: Sequence[Dataset], say: Say) -> Program:
    """Make the program, have all who compute it meet, and say who they are where that is not one device."""
    program = prepare(config, datasets)
    processes.barrier("start")
    program.layout.warm_up_collectives()
    if program.layout.words:
        say(program.layout.words + (f", in {processes.count()} processes" if processes.count() > 1 else ""))
    return program


def resume(out: Path, folders: Folders | None, console: Console, parallel: Parallel | None = None) -> None:
    """Go on with a run where its newest good checkpoint is, to the same end as if it had never stopped.

    Its work may be shared among other devices and processes than before.
    """
    say = partial(console.print, highlight=False, markup=False, soft_wrap=True)
    processes.check_visible(out)
    begun, differences = run_folder.read(out)
    if parallel is not None:
        begun = replace(begun, config=replace(begun.config, parallel=parallel))
    processes.check_same_everywhere({"RUN": run_folder.fingerprint(out), "mode": to_dict(begun.config.parallel)})
    with locked(out) if processes.is_leader() else nullcontext():
        if processes.leader_decides((out / run_folder.RESULT).exists):
            say(f"{out} is finished: there is nothing left to do; its result is in {out / run_folder.RESULT}")
            return
        for sentence in differences:
            say(sentence)
        places = begun.folders if folders is None else folders
        datasets = data.load(begun.config.data, list(begun.seeds), places, say)
        run_folder.check_data(out, datasets[0])
        path = good_checkpoint(out, partial(_predictions_are_there, out, begun, datasets[0].from_files, say), say)
        found, resumed = Progress(), None
        if path is None:
            say(f"no checkpoint of {out} was ever written: it starts from its beginning")
        else:
            found, note = progress_in(path)
            resumed = Resumed(note["stage"], note["step"], partial(checkpoint.read_tree, path))
            stage = f"stage {note['stage'] + 1} of {len(begun.config.stages)}"
            say(f"going on from {path.name}: step {note['step']:,} of {stage}")
        try:
            program = prepared(begun.config, datasets, say)
        except ShareError as error:
            raise ConfigError(f"{error}; metapl resume {out} --mode auto goes on with what is here") from None
        log(out, "resumed", pid=os.getpid(), checkpoint=path and path.name)
        work(out, begun, datasets, program, found, resumed, console)


def good_checkpoint(out: Path, fits: Callable[[checkpoint.Note], str], say: Say) -> Path | None:
    """The one that process 0 finds, which sets aside those that are damaged."""

    def find() -> str | None:
        path = newest_good(out, fits, say)
        return path.name if path else None

    name = processes.leader_decides(find)
    return out / checkpoint.FOLDER / name if name else None


def work(
    out: Path,
    begun: Begun,
    datasets: Sequence[Dataset],
    program: Program,
    found: Progress,
    resumed: Resumed | None,
    console: Console,
) -> None:
    """Train what is left of the groups of seeds, saving on the way, and write the result."""
    config, seeds = begun.config, len(begun.seeds)
    say = partial(console.print, highlight=False, markup=False, soft_wrap=True)
    warn = partial(say, style="yellow")
    with (
        runlog.progress(console) as screen,
        signals.listening(say, partial(console.show_cursor, True)) as stop,
        closing(journal_of(out, found)) as lines,
        closing(labels_of(out, config, program, datasets[0], found, say)) as labels,
        closing(Saver(out, config, found, lines, stop, say, labels)) as saver,
    ):
        for number, group in list(enumerate(groups(seeds, begun.seeds_at_once)))[found.group :]:
            found.group = number
            own, some = begun.seeds[group], datasets[group]
            done = steps_done(config, 0, resumed.stage, resumed.step) if resumed else 0
            session = Session(out, to_dict(config), own, alone=seeds == 1, done=done)
            examine = examiner(config, own, some, found.history, found.confusions)
            noted = number == 0 and label_paths.wanted(config, program, datasets[0])
            record = label_paths.recorder(config, own[0], some, labels) if noted else None
            tell = say if number == 0 else lambda _: None  # what is true of every seed is said once
            with sinks.opened(session, warn) if processes.is_leader() else nullcontext() as others:
                listeners: list[Listen] = []
                if others is not None:
                    guards = watching(out, config, own, datasets[0], steps_done(config, number, 0, 0), warn)
                    listeners = [noting(lines, config, own), others, guards]
                reports = screen.watch(title(config, own, seeds), config, done, listeners)
                saver.flush = reports.flush
                trained = train(
                    config, own, some, reports, tell, examine, program, saver.counting(screen.counting), out,
                    between=saver.between, resumed=resumed, record=record,
                )  # fmt: skip
            save_weights(trained, config, datasets[0], own, out, alone=seeds == 1)
            resumed = None
    if processes.is_leader():
        write_result(out, config, found, datasets[0].class_names, begun.seeds_at_once, console)


def journal_of(out: Path, found: Progress) -> journal.Journal:
    """The run's, open from where the checkpoint has it; one process writes it."""
    return journal.Journal(out / journal.FILE, found.mark) if processes.is_leader() else journal.Unwritten()


def labels_of(
    out: Path, config: Config, program: Program, dataset: Dataset, found: Progress, say: Say
) -> journal.Journal:
    """The file for pseudo labels, if there are any to note."""
    if not label_paths.wanted(config, program, dataset):
        return journal.Unwritten()
    return label_paths.opened(out, found.labels_mark, say)


def noting(lines: journal.Journal, config: Config, seeds: Sequence[int]) -> Listen:
    """Make the listener that writes each report down, with the step that its stage counts."""
    starts = [steps_done(config, 0, stage, 0) for stage in range(len(config.stages))]

    def listen(stage: int, step: int, numbers: Numbers) -> None:
        lines.write(seeds, stage, step - starts[stage], numbers)

    return listen


def watching(out: Path, config: Config, seeds: Sequence[int], dataset: Dataset, steps_before: int, warn: Say) -> Listen:
    """Have the guards look at every report, after those that sessions before have written down.

    Groups of seeds before this one have taken `steps_before` steps, which names of checkpoints count, too.
    """
    keeper = runlog.keeper(config, seeds, dataset)
    for alarm in replay(keeper, (out / journal.FILE).read_text("utf-8").splitlines()):
        note(alarm, out / WARNINGS)  # that session may have been killed before it did

    def last_good(step: int) -> str:
        newest = checkpoint.name_of(steps_before + step)
        names = [name for name in checkpoint.names(out / checkpoint.FOLDER) if name <= newest]
        kept = f"The last good checkpoint is {max(names)}" if names else "There is no checkpoint from before"
        return f"{kept}; a resumed run would come to the same place, so change the settings and begin another."

    return guarding(keeper, warn, out / WARNINGS, last_good)


def write_result(
    out: Path, config: Config, found: Progress, class_names: Sequence[str], together: int, console: Console
) -> None:
    """Put the scores together; result.json comes last: a run that has it is finished."""
    summary = results.summarize(found.history)
    result = overview(config, summary, together, found.seconds_so_far()) | summary
    result["per_class_accuracy"] = per_class(found.confusions, class_names)
    with explaining_disk_errors(out):
        results.write_evaluations(out / "evaluations.csv", found.history)
        save_confusions(out / "confusion.npz", found.confusions, class_names)
        write_atomically(out / run_folder.RESULT, (json.dumps(result, indent=2, allow_nan=False) + "\n").encode())
    log(out, "finished", seconds=result["seconds"])
    console.print(results.table(summary))
    accuracy = results.percent(summary["final"]["accuracy"])
    wrote = f"accuracy {accuracy} after {result['steps']:,} steps; wrote {out}"
    console.print(wrote, highlight=False, markup=False, soft_wrap=True)


def _predictions_are_there(out: Path, begun: Begun, from_files: bool, say: Say, note: checkpoint.Note) -> str:
    """Say why a stage's stored predictions cannot be used, or "". Damaged ones are set aside, to be computed again."""
    method = begun.config.stages[note["stage"]].method
    if not method.uses_stored_predictions:
        return ""
    seeds = begun.seeds[groups(len(begun.seeds), begun.seeds_at_once)[note["group"]]]
    stem = predictions_stem(out, note["stage"])
    try:
        predictions = stored_predictions.read(seeds, method.selection, stem, to_device=not from_files)
        if stored_predictions.checksum(predictions) == note["predictions_crc32c"]:
            return ""
    except (OSError, ValueError):
        pass
    for file in stored_predictions.files(seeds, stem):
        if file.exists():
            say(f"{file.name} cannot be relied on: set aside as {checkpoint.set_aside(file).name}")
    return "the predictions that its stage learns from are missing or damaged"


def title(config: Config, group: Sequence[int], seeds: int) -> str:
    """What a bar is called: the method, and the seeds where there are bars for several."""
    name = method_name(config)
    if len(group) == seeds:
        return name
    return f"{name}, seed {group[0]}" if len(group) == 1 else f"{name}, seeds {group[0]}–{group[-1]}"


def method_name(config: Config) -> str:
    """The last stage's that learns from unlabelled examples: what comes after it only finetunes."""
    names = [stage.method.name for stage in config.stages if stage.method.uses_unlabeled]
    return (names or [config.stages[-1].method.name])[-1]


def examiner(
    config: Config,
    seeds: Sequence[int],
    datasets: Sequence[Dataset],
    history: list[Evaluation],
    confusions: Confusions,
) -> Examine:
    """Make the function that the loop shows its networks to: it notes every score and reports the main ones."""

    def examine(stage: int, step: int, trained: Trained) -> Metrics:
        found = held_out.examine(trained, config.augmentation, datasets)
        for seed, (test, confusion, val) in zip(seeds, found, strict=True):
            history.append(Evaluation(seed, stage, step, test, val))
            confusions[seed] = confusion
        metrics = {
            "test_accuracy": [one.test.accuracy for one in found],
            "test_nll": [one.test.nll for one in found],
            "val_accuracy": [one.val.accuracy for one in found if one.val],
        }
        return {name: jnp.asarray(values) for name, values in metrics.items() if values}

    return examine


def overview(config: Config, summary: Mapping[str, Any], together: int, seconds: float) -> dict[str, Any]:
    """What a reader of result.json looks for first; the accuracy is that of the final weights."""
    accuracy = summary["final"]["accuracy"]
    return {
        "method": method_name(config),
        "accuracy": accuracy["mean"],
        "std": accuracy["std"],
        "accuracies": accuracy["seeds"],
        "steps": sum(stage.steps for stage in config.stages),
        "seconds": round(seconds, 2),
        "seeds_at_once": together,
    }


def per_class(confusions: Confusions, class_names: Sequence[str]) -> list[dict[str, Any]]:
    """How well each class is recognised by the final weights; a class without test examples has no number."""
    accuracies = {seed: per_class_accuracy(confusion) for seed, confusion in confusions.items()}
    found: list[dict[str, Any]] = []
    for index, name in enumerate(class_names):
        own = {seed: value for seed, values in accuracies.items() if (value := values[index]) is not None}
        found.append({"class": name} | (results.spread(own) if own else {"mean": None}))
    return found


def save_confusions(path: Path, confusions: Confusions, class_names: Sequence[str]) -> None:
    """Write the final weights' predictions as counts: `counts` [seed, right class, answer]; read without pickles."""
    counts = np.stack(list(confusions.values())).astype(np.int32)
    np.savez_compressed(path, counts=counts, seeds=np.array(list(confusions)), class_names=np.array(class_names))


def save_weights(
    trained: Trained, config: Config, dataset: Dataset, seeds: Sequence[int], out: Path, alone: bool
) -> None:
    """Write weights.safetensors, or one weights-SEED.safetensors for each seed."""
    example = Example(dataset.labeled.shape[1:], dataset.labeled.dtype.name)
    for index, seed in enumerate(seeds):
        name = "weights.safetensors" if alone else f"weights-{seed}.safetensors"
        weights = jax.tree.map(lambda leaf, index=index: to_host(leaf[index]), trained.weights)
        if not processes.is_leader():
            continue
        new = out / f"{name}.new"
        with explaining_disk_errors(out):
            try:
                save(new, weights, to_dict(config.stage_models[-1]), dataset.class_names, example)
            except SafetensorError as error:  # what the system said is somewhere in its text
                raise OSError(errno.EIO, str(error), str(out / name)) from None
            new.replace(out / name)
