"""Run what is missing of a study: each (case, arm) is a run in a folder of its own, started, resumed or left as it is.

Several processes, on one machine or on many that share the folder, may work on the same study: each takes runs that no
other process has locked.
"""

import csv
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from metapl.data.reading.files import Folders
from metapl.runs import run_folder
from metapl.runs.resume import resume_run
from metapl.runs.start import start_run
from metapl.schema import ConfigError, to_dict
from metapl.study import figure
from metapl.study.compare import Accuracies
from metapl.study.read import config_of
from metapl.study.report import Tables
from metapl.study.settings import LAST_STAGE, Part, Score, Study
from metapl.system.lock import LockedError
from metapl.system.terminal import say

RUNS = "runs"


def folder_of(out: Path, case: str, arm: str) -> Path:
    """Where a run of the study lies."""
    return out / RUNS / f"{case}--{arm}"


def work(study: Study, out: Path, folders: Folders, console: Console) -> None:
    """Start or resume every run that is not finished and not locked, until there is none left.

    A run that another process has locked is tried again after the others: that process may have been killed since.
    """
    worked = True
    while worked:
        worked = False
        for names in study.runs():
            worked |= _work_on(study, names, out, folders, console)


def _work_on(study: Study, names: tuple[str, str], out: Path, folders: Folders, console: Console) -> bool:
    """Start or resume one run; False if there was nothing to do, or another process does it."""
    case, arm = names
    folder = folder_of(out, case, arm)
    check_settings(study, case, arm, folder)
    if is_finished(folder):
        return False
    number, total = study.runs().index(names) + 1, len(study.runs())
    say(console, f"run {number} of {total}: {case}, {arm}", style="bold")
    try:
        if (folder / run_folder.CONFIG).exists():
            resume_run(folder, folders, console)
        else:
            folder.mkdir(parents=True, exist_ok=True)
            start_run(config_of(study, case, arm), study.seeds_of(case), "auto", folders, folder, console)
    except LockedError as error:
        say(console, f"{error}; this process continues with the next run")
        return False
    return True


def is_finished(folder: Path) -> bool:
    """Whether a run has its result."""
    return (folder / run_folder.RESULT).exists()


def check_settings(study: Study, case: str, arm: str, folder: Path) -> None:
    """Refuse to mix: a run that lies there must have the study's settings and seeds."""
    if not (folder / run_folder.CONFIG).exists():
        return
    settings, _ = run_folder.read(folder)
    wanted = config_of(study, case, arm)
    if to_dict(settings.config) != to_dict(wanted) or len(settings.seeds) != study.seeds_of(case):
        raise ConfigError(f"{folder} was run with other settings or seeds; choose another --out, or move it away")


def tables(study: Study, out: Path, part: Part) -> Tables:
    """What the finished runs say."""
    curves = figure.read_curves(study, partial(folder_of, out))
    missing = sum(not is_finished(folder_of(out, case, arm)) for case, arm in study.runs())
    return Tables({score: accuracies(study, out, part, score) for score in study.scores}, part, curves, missing)


def accuracies(study: Study, out: Path, part: Part = "test", score: Score = "accuracy") -> Accuracies:
    """A score of every seed of every row whose run is finished, in percent."""
    scores = {}
    for case, arm in study.rows():
        folder = folder_of(out, case, study.arms[arm].run_of or arm)
        if is_finished(folder) and (values := _of_seeds(folder, part, score, study.arms[arm].after_stage)) is not None:
            scores[case, arm] = values
    return scores


def _of_seeds(folder: Path, part: Part, score: Score, stage: int) -> NDArray[np.float64] | None:
    """Each seed's last evaluation of a stage; None if the score does not exist for these data."""
    with (folder / "evaluations.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    stage = max(int(row["stage"]) for row in rows) if stage == LAST_STAGE else stage
    last = {int(row["seed"]): row.get(f"{part}_{score}", "") for row in rows if int(row["stage"]) == stage}
    if not last:
        raise ConfigError(f"{folder} was not measured after stage {stage}: set eval_every_steps to the stage's steps")
    if "" in last.values():
        if score != "accuracy":
            return None
        raise ConfigError(f"{folder} has no {part} part: its data hold none out")
    return 100 * np.array([float(last[seed]) for seed in sorted(last)])
