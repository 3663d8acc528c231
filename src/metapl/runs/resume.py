"""`metapl resume`: go on with a run from its newest good checkpoint."""

import json
import os
import shutil
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from rich.console import Console

from metapl import data
from metapl.data.reading.files import Folders
from metapl.runs import checkpoint, run_folder
from metapl.runs.checkpoint import MismatchError, Note
from metapl.runs.find import CHECKPOINT_FORMAT
from metapl.runs.run_folder import OtherVersionError, RunSettings
from metapl.runs.saver import PROGRESS, Progress, log, progress_in
from metapl.runs.work import OpenRun, Say, prepared, work
from metapl.schema import ConfigError, to_dict
from metapl.system import processes
from metapl.system.lock import locked
from metapl.system.sharding import Parallel, ShareError
from metapl.system.terminal import sayer
from metapl.train import stored_predictions
from metapl.train.groups import groups
from metapl.train.loop import Resumed, predictions_stem
from metapl.types import PyTree

Problem = Callable[[Note], str]  # why a checkpoint cannot be used; "" if it can


def resume_run(out: Path, folders: Folders | None, console: Console, parallel: Parallel | None = None) -> None:
    """Go on with a run from its newest good checkpoint; it ends as if it had never stopped.

    `folders` are where its data are now; None: where the run found them. `parallel` shares the work in another way.
    """
    say = sayer(console)
    processes.check_visible(out)
    settings, differences = run_folder.read(out)
    if parallel is not None:
        settings = replace(settings, config=replace(settings.config, parallel=parallel))
    processes.check_same_everywhere({"RUN": run_folder.fingerprint(out), "mode": to_dict(settings.config.parallel)})
    with locked(out) if processes.is_leader() else nullcontext():
        if processes.leader_decides((out / run_folder.RESULT).exists):
            say(f"{out} is finished; its result is in {out / run_folder.RESULT}")
            return
        places = settings.folders if folders is None else folders
        datasets = data.load(settings.config.data, list(settings.seeds), places, say)
        run_folder.check_data(out, datasets[0])
        problem = partial(predictions_problem, out, settings, datasets[0].from_files, say)
        path = good_checkpoint(out, problem, say)
        for sentence in differences:
            say(sentence)
        progress, resumed = last_state(out, path, len(settings.config.stages), say)
        try:
            program = prepared(settings.config, datasets, say)
        except ShareError as error:
            raise ConfigError(f"{error}; metapl resume {out} --mode auto uses the devices of this machine") from None
        log(out, "resumed", pid=os.getpid(), checkpoint=path and path.name)
        work(OpenRun(out, settings, datasets, program, console), progress, resumed)


def last_state(out: Path, path: Path | None, stages: int, say: Say) -> tuple[Progress, Resumed | None]:
    """Read what a checkpoint says is done; without a checkpoint, nothing is."""
    if path is None:
        say(f"{out} has no checkpoint yet: it starts from its beginning")
        return Progress(), None
    progress, note = progress_in(path)
    say(f"continuing from {path.name}: step {note['step']:,} of stage {note['stage'] + 1} of {stages}")

    def restore(like: PyTree) -> PyTree:
        try:
            return checkpoint.read_tree(path, like)
        except MismatchError as error:
            raise OtherVersionError(out, str(error)) from None

    return progress, Resumed(note["stage"], note["step"], restore)


def good_checkpoint(out: Path, problem: Problem, say: Say) -> Path | None:
    """The checkpoint that the leader finds with `newest_good`, in every process."""

    def find() -> str | None:
        path = newest_good(out, problem, say)
        return path.name if path else None

    name = processes.leader_decides(find)
    return out / checkpoint.FOLDER / name if name else None


def newest_good(out: Path, problem: Problem, say: Say) -> Path | None:
    """The checkpoint to go on from; None if none was ever written.

    A damaged checkpoint is named and set aside, and the one before it is used. If no good one is left, that is an
    error: the run must not silently begin again after days of work.
    """
    folder = out / checkpoint.FOLDER
    for path in sorted(folder.glob(f"{checkpoint.PARTIAL}*")):
        say(f"{path.name} was being written when the run ended: deleted")
        shutil.rmtree(path, ignore_errors=True)
    for path in folder.glob(f"{checkpoint.DAMAGED}{checkpoint.PARTIAL}*"):  # version 0.1.0 kept them
        shutil.rmtree(path, ignore_errors=True)
    for name in reversed(checkpoint.names(folder)):
        wrong = checkpoint.damage(folder / name)
        if not wrong:
            note = checkpoint.read_note(folder / name)
            if note.get("format") != CHECKPOINT_FORMAT:
                raise OtherVersionError(
                    out, f"checkpoint {name} has format {note.get('format')}, this version's is {CHECKPOINT_FORMAT}"
                )
            wrong = problem(note)
        if not wrong:
            _miss_the_newest(out, name, say)
            return folder / name
        say(f"checkpoint {name} is damaged ({wrong}): set aside as {checkpoint.set_aside(folder / name).name}")
    if (out / PROGRESS).exists() or any(folder.glob(f"{checkpoint.DAMAGED}{checkpoint.COMPLETE}*")):
        raise ConfigError(
            f"no good checkpoint of {out} is left to continue from; metapl train {out}/config.toml starts the run "
            "again in another folder"
        )
    return None


def _miss_the_newest(out: Path, name: str, say: Say) -> None:
    """Say so if the newest checkpoint was removed, and `name` is an older one."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        newest = str(json.loads((out / PROGRESS).read_text("utf-8"))["checkpoint"])
        if newest > name and not any((out / checkpoint.FOLDER).glob(f"*{newest}*")):
            say(f"checkpoint {newest}, which was the newest, is missing")


def predictions_problem(out: Path, settings: RunSettings, from_files: bool, say: Say, note: Note) -> str:
    """Why a stage's stored predictions cannot be used; "" if they can. Damaged files are set aside."""
    method = settings.config.stages[note["stage"]].method
    if not method.uses_stored_predictions:
        return ""
    seeds = settings.seeds[groups(len(settings.seeds), settings.seeds_at_once)[note["group"]]]
    stem = predictions_stem(out, note["stage"])
    try:
        predictions = stored_predictions.read(seeds, method.selection, stem, to_device=not from_files)
        if stored_predictions.checksum(predictions) == note["predictions_crc32c"]:
            return ""
    except (OSError, ValueError):
        pass
    for file in stored_predictions.files(seeds, stem):
        if file.exists():
            say(f"{file.name} is damaged: set aside as {checkpoint.set_aside(file).name}")
    return "the stored predictions that its stage learns from are missing or damaged"
