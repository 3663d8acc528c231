"""Read all that a report shows of one run; missing or damaged files are named, and the rest is shown."""

import json
import os
import sys
import tomllib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from metapl.runs import no_run
from metapl.runs.find import Run, find_runs, read_run
from metapl.schema import ConfigError
from metapl.system.escape import shortened

MOST_WARNINGS = 20
LONGEST_NAME = 80  # letters of a class's name, which a page has hundreds of times
MOST = 1 << 53  # counts are below this: floats hold all whole numbers up to here
# The errors that NumPy raises for a damaged archive.
_DAMAGE = (OSError, ValueError, LookupError, EOFError, TypeError, RuntimeError, MemoryError, BadZipFile, zlib.error)
_ALWAYS = ("environment.json", "metrics.jsonl")
_AT_THE_END = ("evaluations.csv", "confusion.npz")

Table = Mapping[str, Any]


@dataclass(frozen=True)
class ReportedRun:
    """One run, as a report shows it."""

    run: Run
    name: str  # its folder's name, with as many folders above as make it differ from other runs' names
    anchor: str
    settings: Table = field(default_factory=dict)
    result: Table = field(default_factory=dict)
    environment: Table = field(default_factory=dict)
    split: Table = field(default_factory=dict)
    confusion: NDArray[np.int64] | None = None  # [true class, predicted class], all seeds together
    class_names: Sequence[str] = ()
    warnings: Sequence[str] = ()
    missing: Sequence[str] = ()  # files that are missing or cannot be read

    @property
    def finished(self) -> bool:
        """Whether it is finished and has an accuracy."""
        return self.run.state == "finished" and bool(self.scores("accuracy"))

    def scores(self, name: str, rule: str = "final") -> dict[int, float]:
        """One score of each seed; {} if the result does not have it."""
        seeds = table(table(table(self.result.get(rule)).get(name)).get("seeds"))
        return {int(seed): float(value) for seed, value in seeds.items() if _is_seed(seed) and is_number(value)}

    @property
    def stages(self) -> list[Table]:
        """The settings of each stage."""
        stages = self.settings.get("stages")
        return [stage for stage in stages if isinstance(stage, dict)] if isinstance(stages, list) else []

    @property
    def stage_steps(self) -> list[int]:
        """The number of steps of each stage."""
        return [steps if is_count(steps := stage.get("steps")) else 0 for stage in self.stages]

    @property
    def labels(self) -> int | None:
        """How many examples have a label."""
        count = table(self.split.get("labeled")).get("count")
        if is_count(count):
            return count
        each = table(self.settings.get("data")).get("labels_per_class")
        return 2 * each if is_count(each) else None

    @property
    def data_key(self) -> str:
        """A key that is equal for runs that were trained and evaluated on the same data, seed by seed."""
        data = table(self.settings.get("data"))
        if checksum := self.split.get("checksum"):
            return f"split {checksum}"
        if "split" in data or not data:  # pictures without a checksum: equal to no other run's
            return f"unknown {self.anchor}"
        return f"drawn {json.dumps(data, sort_keys=True, default=str)}"


def read_runs(places: Sequence[Path]) -> list[ReportedRun]:
    """Read every run in these folders or below them, in the order given; a folder without runs is read as one run.

    Folders of a sweep or of the demo are refused: these have their own reports.
    """
    by_path: dict[Path, Run] = {}
    for place in places:
        if not os.path.isdir(place):
            raise ConfigError(f"{place} is not a folder; give the folders of runs, or a folder with runs below it")
        below = find_runs([place], "name")
        if not below and (sentence := no_run.explain([place])):
            raise ConfigError(sentence)
        for run in below or [read_run(place)]:
            by_path.setdefault(run.path.resolve(), run)
    names = _names(list(by_path.values()))
    return [_load(run, name, f"run-{i}") for i, (run, name) in enumerate(zip(by_path.values(), names, strict=True), 1)]


def _names(found_runs: Sequence[Run]) -> list[str]:
    """The folders' names, with as many of the folders above as make them differ."""
    paths = [run.path.resolve().parts for run in found_runs]
    for depth in range(1, max(map(len, paths), default=0) + 1):
        names = ["/".join(parts[-depth:]) for parts in paths]
        if len(set(names)) == len(names):
            return names
    return [str(run.path) for run in found_runs]


def _load(run: Run, name: str, anchor: str) -> ReportedRun:
    path = run.path
    missing: list[str] = []
    settings = _read(path / "config.toml", missing, tomllib.loads)
    result = _read(path / "result.json", missing) if os.path.exists(path / "result.json") else {}
    split = _read(path / "split.json", missing) if "split" in table(settings.get("data")) else {}
    expected = _ALWAYS + (_AT_THE_END if result else ())
    missing += [file for file in expected if not os.path.isfile(path / file)]
    environment = _read(path / "environment.json", []) if "environment.json" not in missing else {}
    confusion, class_names = _confusion(path / "confusion.npz", missing)
    return ReportedRun(
        run=run,
        name=name,
        anchor=anchor,
        settings=settings,
        result=result,
        environment=environment,
        split=split,
        confusion=confusion,
        class_names=[shortened(name, LONGEST_NAME) for name in class_names],
        warnings=_warnings(path / "warnings.jsonl"),
        missing=missing,
    )


def _read(path: Path, missing: list[str], parse: Any = json.loads) -> Table:
    try:
        content = parse(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        content = None
    if isinstance(content, dict) and content:
        return content
    missing.append(path.name)
    return {}


def _confusion(path: Path, missing: list[str]) -> tuple[NDArray[np.int64] | None, list[str]]:
    if not os.path.isfile(path):
        return None, []
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            counts, names = np.asarray(file["counts"]), [str(name) for name in file["class_names"]]
    except _DAMAGE:
        counts, names = np.zeros(0), []
    shaped = counts.ndim == 3 and counts.dtype.kind in "iu" and counts.shape[1:] == (len(names), len(names))
    if not shaped or (counts < 0).any():
        missing.append(path.name)
        return None, []
    return counts.sum(0, dtype=np.int64), names


def _warnings(path: Path) -> list[str]:
    """The guards' warnings, the newest last."""
    try:
        lines = path.read_bytes()[-(1 << 18) :].splitlines()[-MOST_WARNINGS:]
    except OSError:
        return []
    warnings = []
    for line in lines:
        try:
            entry = json.loads(line)
            warnings.append(f"{entry['guard']} (step {entry['step']} of stage {entry['stage']}): {entry['text']}")
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
    return warnings


def table(value: Any) -> Table:
    """The value if it is a dict, or else {}: a file may hold anything."""
    return value if isinstance(value, dict) else {}


def is_number(value: Any) -> bool:
    """Whether it is a finite number and not a bool."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def is_count(value: Any) -> TypeGuard[int]:
    """Whether it is a whole number from 0 to what a float holds exactly."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST


def _is_seed(name: str) -> bool:
    return name.isdecimal() and len(name) < 20
