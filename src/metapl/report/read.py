"""All that a report tells of one run, from its files; what is missing or damaged is named, and the rest is shown."""

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

from metapl.report.escape import shortened
from metapl.runs import no_run
from metapl.runs.find import Run, find_runs, read_run
from metapl.schema import ConfigError

MOST_WARNINGS = 20
LONGEST_NAME = 80  # letters of a class, whose name stands in hundreds of places
MOST = 1 << 53  # numbers from here on are no counts, and floats do not tell them apart
# What NumPy lets through of a damaged archive.
_DAMAGE = (OSError, ValueError, LookupError, EOFError, TypeError, RuntimeError, MemoryError, BadZipFile, zlib.error)
_ALWAYS = ("environment.json", "metrics.jsonl")
_AT_THE_END = ("evaluations.csv", "confusion.npz")

Table = Mapping[str, Any]


@dataclass(frozen=True)
class Loaded:
    """One run."""

    run: Run
    name: str  # its folder's, made to differ from the others'
    anchor: str
    settings: Table = field(default_factory=dict)
    result: Table = field(default_factory=dict)
    environment: Table = field(default_factory=dict)
    split: Table = field(default_factory=dict)
    confusion: NDArray[np.int64] | None = None  # [right class, answer], all seeds together
    class_names: Sequence[str] = ()
    warnings: Sequence[str] = ()
    missing: Sequence[str] = ()  # files that are not there or cannot be read

    @property
    def finished(self) -> bool:
        """Does it have a result that can be believed?"""
        return self.run.state == "finished" and bool(self.scores("accuracy"))

    def scores(self, name: str, rule: str = "final") -> dict[int, float]:
        """One score of each seed; {} where the result does not have it."""
        seeds = table(table(table(self.result.get(rule)).get(name)).get("seeds"))
        return {int(seed): float(value) for seed, value in seeds.items() if _is_seed(seed) and is_number(value)}

    @property
    def stages(self) -> list[Table]:
        """The settings of each stage."""
        found = self.settings.get("stages")
        return [stage for stage in found if isinstance(stage, dict)] if isinstance(found, list) else []

    @property
    def stage_steps(self) -> list[int]:
        """How long each stage is."""
        return [steps if is_count(steps := stage.get("steps")) else 0 for stage in self.stages]

    @property
    def labels(self) -> int | None:
        """How many examples carry a label."""
        count = table(self.split.get("labeled")).get("count")
        if is_count(count):
            return count
        each = table(self.settings.get("data")).get("labels_per_class")
        return 2 * each if is_count(each) else None

    @property
    def data_key(self) -> str:
        """Runs with the same one were trained and judged on the same data, seed by seed."""
        data = table(self.settings.get("data"))
        if checksum := self.split.get("checksum"):
            return f"split {checksum}"
        if "split" in data or not data:  # pictures of which nobody knows whether they are the same
            return f"unknown {self.anchor}"
        return f"drawn {json.dumps(data, sort_keys=True, default=str)}"


def find(places: Sequence[Path]) -> list[Loaded]:
    """Every run in these folders or below them, in the order given; a folder without any is shown as what it is.

    A sweep's or the demo's is refused: they have reports of their own.
    """
    found: dict[Path, Run] = {}
    for place in places:
        if not os.path.isdir(place):
            raise ConfigError(f"{place} is not a folder; give the folders of runs, or a folder with runs below it")
        below = find_runs([place], "name")
        if not below and (sentence := no_run.explain([place])):
            raise ConfigError(sentence)
        for run in below or [read_run(place)]:
            found.setdefault(run.path.resolve(), run)
    names = _names(list(found.values()))
    return [_load(run, name, f"run-{i}") for i, (run, name) in enumerate(zip(found.values(), names, strict=True), 1)]


def _names(found: Sequence[Run]) -> list[str]:
    """The folders' names, with as many of the folders above as tell them apart."""
    parts = [run.path.resolve().parts for run in found]
    for depth in range(1, max(map(len, parts), default=0) + 1):
        names = ["/".join(one[-depth:]) for one in parts]
        if len(set(names)) == len(names):
            return names
    return [str(run.path) for run in found]


def _load(run: Run, name: str, anchor: str) -> Loaded:
    path = run.path
    missing: list[str] = []
    settings = _read(path / "config.toml", missing, tomllib.loads)
    result = _read(path / "result.json", missing) if os.path.exists(path / "result.json") else {}
    split = _read(path / "split.json", missing) if "split" in table(settings.get("data")) else {}
    expected = _ALWAYS + (_AT_THE_END if result else ())
    missing += [file for file in expected if not os.path.isfile(path / file)]
    environment = _read(path / "environment.json", []) if "environment.json" not in missing else {}
    confusion, class_names = _confusion(path / "confusion.npz", missing)
    return Loaded(
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
        found = parse(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        found = None
    if isinstance(found, dict) and found:
        return found
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
    """What the guards have found, the newest last."""
    try:
        lines = path.read_bytes()[-(1 << 18) :].splitlines()[-MOST_WARNINGS:]
    except OSError:
        return []
    found = []
    for line in lines:
        try:
            told = json.loads(line)
            found.append(f"{told['guard']} (step {told['step']} of stage {told['stage']}): {told['text']}")
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
    return found


def table(value: Any) -> Table:
    """The value if it is a table; files of others may hold anything."""
    return value if isinstance(value, dict) else {}


def is_number(value: Any) -> bool:
    """A finite number, and not a truth."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def is_count(value: Any) -> TypeGuard[int]:
    """A whole number that a float can hold, as steps are drawn with."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST


def _is_seed(name: str) -> bool:
    return name.isdecimal() and len(name) < 20
