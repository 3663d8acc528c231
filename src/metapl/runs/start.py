"""`metapl train`: start a run in a new folder."""

import dataclasses
import os
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from rich.console import Console

from metapl import data
from metapl.config import Config
from metapl.data.reading.files import Folders
from metapl.runs import run_folder, sinks
from metapl.runs.run_folder import RunSettings
from metapl.runs.saver import Progress, log
from metapl.runs.work import OpenRun, prepared, work
from metapl.schema import ConfigError, to_dict
from metapl.system import processes
from metapl.system.lock import LockedError, locked
from metapl.system.terminal import sayer
from metapl.train.groups import AtOnce, seeds_together


def start_run(config: Config, seeds: int, at_once: AtOnce, folders: Folders, out: Path, console: Console) -> None:
    """Start a run with this many seeds in the empty folder `out`, and train it to its end."""
    if config.seed + seeds > 2**32:
        raise ConfigError(f"the last seed would be {config.seed + seeds - 1}, above {2**32 - 1}")
    sinks.require(to_dict(config))
    config = dataclasses.replace(config, data=data.settled(config.data))
    numbers = list(range(config.seed, config.seed + seeds))
    say = sayer(console)
    datasets = data.load(config.data, numbers, folders, say)
    if not len(datasets[0].test):
        raise ConfigError("the data have no test part, so the result could not be measured; add one (docs/data.md)")
    program = prepared(config, datasets, say)
    together = seeds_together(at_once, seeds, config, program, datasets[0])
    settings = RunSettings(config, tuple(numbers), together, folders)
    with locked(out) if processes.is_leader() else nullcontext():
        processes.leader_decides(lambda: _write(out, settings, datasets[0].manifest))
        processes.check_visible(out / run_folder.CONFIG)
        if not processes.is_leader():  # another machine may have other files
            run_folder.check_data(out, datasets[0])
        log(out, "began", pid=os.getpid())
        work(OpenRun(out, settings, datasets, program, console), Progress())


def _write(out: Path, settings: RunSettings, manifest: Mapping[str, Any] | None) -> None:
    """Write the files of a new run, unless another process has begun one while this one read its data."""
    if (out / run_folder.CONFIG).exists():
        raise LockedError(f"another process has started a run in {out} in the meantime")
    run_folder.write(out, settings, manifest)
