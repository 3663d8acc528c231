"""Run what is missing of a study: each (case, arm) is a run in a folder of its own, started, resumed or left as it is.

Several processes, on one machine or on many that share the folder, may work on the same study: each takes runs that no
other process has locked.
"""

import csv
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from metapl.data.reading.files import Folders
from metapl.runs import run_folder
from metapl.runs.resume import resume_run
from metapl.runs.start import start_run
from metapl.schema import ConfigError, to_dict
from metapl.study.compare import Accuracies
from metapl.study.settings import Part, Study, config_of
from metapl.system.lock import LockedError
from metapl.system.terminal import say

RUNS = "runs"


def folder_of(out: Path, case: str, arm: str) -> Path:
    """Where a run of the study lies."""
    return out / RUNS / f"{case}--{arm}"


def work(study: Study, out: Path, folders: Folders, console: Console) -> int:
    """Start or resume every run that is not finished and not locked; return how many are still missing then."""
    names = study.runs()
    for number, (case, arm) in enumerate(names, start=1):
        folder = folder_of(out, case, arm)
        check_settings(study, case, arm, folder)
        if is_finished(folder):
            continue
        say(console, f"run {number} of {len(names)}: {case}, {arm}", style="bold")
        try:
            if (folder / run_folder.CONFIG).exists():
                resume_run(folder, folders, console)
            else:
                folder.mkdir(parents=True, exist_ok=True)
                start_run(config_of(study, case, arm), study.seeds, "auto", folders, folder, console)
        except LockedError as error:
            say(console, f"{error}; this process goes on with the next run")
    return sum(not is_finished(folder_of(out, case, arm)) for case, arm in names)


def is_finished(folder: Path) -> bool:
    """Whether a run has its result."""
    return (folder / run_folder.RESULT).exists()


def check_settings(study: Study, case: str, arm: str, folder: Path) -> None:
    """Refuse to mix: a run that lies there must have the study's settings and seeds."""
    if not (folder / run_folder.CONFIG).exists():
        return
    settings, _ = run_folder.read(folder)
    wanted = config_of(study, case, arm)
    if to_dict(settings.config) != to_dict(wanted) or len(settings.seeds) != study.seeds:
        raise ConfigError(f"{folder} was run with other settings or seeds; choose another --out, or move it away")


def accuracies(study: Study, out: Path, part: Part = "test") -> Accuracies:
    """Accuracy of the final weights of every seed of every finished run, in percent."""
    folders = {(case, arm): folder_of(out, case, arm) for case, arm in study.runs()}
    return {key: _final(folder, part) for key, folder in folders.items() if is_finished(folder)}


def _final(folder: Path, part: Part) -> NDArray[np.float64]:
    """Each seed's last evaluation."""
    with (folder / "evaluations.csv").open(newline="", encoding="utf-8") as file:
        last = {int(row["seed"]): row[f"{part}_accuracy"] for row in csv.DictReader(file)}
    if "" in last.values():
        raise ConfigError(f"{folder} has no {part} part: its data hold none out")
    return 100 * np.array([float(last[seed]) for seed in sorted(last)])
