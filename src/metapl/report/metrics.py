"""A run's curves, from metrics.jsonl: all lines of short files, lines at equal distances of long ones.

A hundred thousand lines are a hundred megabytes of JSON, and fifty such runs would take minutes to read. A page has
room for some hundred points, so only some lines of a long file are read; the page says so. Evaluations are rare and
matter more: all of them are read, or, if there are very many, every second, fourth, … one.
"""

import csv
import json
import math
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from metapl.metrics import HISTOGRAM, LARGEST
from metapl.report.read import is_count, is_number

WHOLE_BYTES = 4 << 20  # files up to this size are read completely
PICKED = 1000  # lines that are read of a longer file
FEWEST = 200  # lines, however long they are
MOST_EVALUATIONS = 4000
_BLOCK, _LARGE_BLOCK = 1 << 14, 1 << 20
_EVALUATION = b'"test_accuracy"'
EVALUATED = ("test_accuracy", "val_accuracy")


@dataclass
class MetricPoints:
    """Values of one metric and their steps; nan for what was not finite."""

    steps: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def arrays(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Steps and values, ordered by step."""
        steps, values = np.array(self.steps, float), np.array(self.values, float)
        values[~np.isfinite(values)] = np.nan
        order = np.argsort(steps, kind="stable")
        return steps[order], values[order]


@dataclass
class Curves:
    """The metrics that a run has written."""

    numbers: dict[str, MetricPoints] = field(default_factory=dict)
    reports: int = 0  # lines that were read
    of_reports: int = 0  # lines in the file; an estimate, if not all were read
    seeds: set[int] = field(default_factory=set)
    damaged: int = 0  # lines that are not JSON, or not a report

    @property
    def whole(self) -> bool:
        """Whether every line was read."""
        return self.reports == self.of_reports


class Evaluations:
    """The lines with an evaluation, of a file that may grow; no part of it is read twice.

    A file that was cut is read again from its start. A resumed run writes the same bytes again (journal.py), so a file
    that was cut and has grown back has the same lines as before.
    """

    def __init__(self) -> None:
        self._forget(None)

    def _forget(self, file: tuple[int, int] | None) -> None:
        self._file, self._end, self._kept, self._count, self._every = file, 0, list[bytes](), 0, 1

    def read(self, path: Path) -> list[bytes]:
        """All of them; whenever there are too many, every second one is dropped."""
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if (status.st_dev, status.st_ino) != self._file or status.st_size < self._end:
                self._forget((status.st_dev, status.st_ino))
            file.seek(self._end)
            for line in _with(file, _EVALUATION):
                if self._count % self._every == 0:
                    self._kept.append(line)
                    if len(self._kept) > MOST_EVALUATIONS:
                        self._kept, self._every = self._kept[::2], 2 * self._every
                self._count += 1
            self._end = file.tell()
        return list(self._kept)


def read(
    run: Path, stage_steps: Sequence[int], names: Collection[str], remembered: Evaluations | None = None
) -> Curves:
    """Read these metrics; a missing or damaged file gives fewer curves, never an error."""
    curves = Curves()
    path = run / "metrics.jsonl"
    try:
        size = path.stat().st_size
        lines = list(_all(path)) if size <= WHOLE_BYTES else list(_picked(path, size))
        evaluations = []
        if size > WHOLE_BYTES and not (run / "evaluations.csv").exists():
            evaluations = (remembered or Evaluations()).read(path)
    except OSError:
        lines, evaluations, size = [], [], 0
    starts = [sum(stage_steps[:i]) for i in range(len(stage_steps) + 1)]
    for line in lines:
        _add(curves, line, starts, names)
        curves.reports += 1
    curves.reports -= curves.damaged
    mean = sum(map(len, lines)) / max(1, len(lines))
    curves.of_reports = curves.reports if size <= WHOLE_BYTES else max(curves.reports, round(size / (mean + 1)))
    if evaluations:
        curves.numbers = {name: points for name, points in curves.numbers.items() if name not in EVALUATED}
    for line in evaluations:
        _add(curves, line, starts, EVALUATED)
    _from_table(curves, run / "evaluations.csv", starts)
    return curves


class CachedReader:
    """Reads the same runs again and again; of long files it reads only new evaluations."""

    def __init__(self) -> None:
        self._evaluations: dict[Path, Evaluations] = {}

    def read(self, run: Path, stage_steps: Sequence[int], names: Collection[str]) -> Curves:
        """As `read` does."""
        return read(run, stage_steps, names, self._evaluations.setdefault(run, Evaluations()))


Read = Callable[[Path, Sequence[int], Collection[str]], Curves]


def _all(path: Path) -> Iterator[bytes]:
    """All lines except a half-written last one."""
    with path.open("rb") as file:
        yield from (line for line in file if line.strip() and line.endswith((b"\n", b"}")))


def _picked(path: Path, size: int) -> Iterator[bytes]:
    """The first whole line after each of many places at equal distances."""
    with path.open("rb") as file:
        number = file.fileno()
        first = _line_after(number, 0, size)
        if first is None:
            return
        count = int(min(PICKED, max(FEWEST, 4 * WHOLE_BYTES // (first[1] + 1))))
        seen = -1
        for place in np.linspace(0, size, count, endpoint=False).astype(int).tolist():
            if place <= seen:  # inside a long line that was read already
                continue
            line = _line_after(number, place, size)
            if line is None:
                return
            seen = line[0]
            yield os.pread(number, line[1], seen)


def _line_after(file: int, place: int, size: int) -> tuple[int, int] | None:
    """Start and length of the first whole line at or after a place; None if there is none."""
    start = 0 if place == 0 else None
    block, at = b"", place
    while at < size:
        more = os.pread(file, max(_BLOCK, len(block)), at)
        if not more:
            return None
        block, at = block + more, at + len(more)
        if start is None and (end := block.find(b"\n")) >= 0:
            start = end + 1
        if start is not None and (end := block.find(b"\n", start)) >= 0:
            return place + start, end - start
    return None


def _with(file: IO[bytes], word: bytes) -> Iterator[bytes]:
    """Lines that contain a word; other lines are not split, because splitting takes most of the time.

    The file is left where the next line begins, so that a half-written line is read the next time.
    """
    while block := file.read(_LARGE_BLOCK):
        block += file.readline()
        whole = block.rfind(b"\n") + 1
        place = block.find(word, 0, whole)
        while place >= 0:
            start, end = block.rfind(b"\n", 0, place) + 1, block.find(b"\n", place)
            yield block[start:end]
            place = block.find(word, end, whole)
        if whole < len(block):
            file.seek(whole - len(block), os.SEEK_CUR)
            return


def _add(curves: Curves, line: bytes, starts: Sequence[int], names: Iterable[str]) -> None:
    try:
        report = json.loads(line)
    except (ValueError, RecursionError):
        report = None
    if not isinstance(report, dict) or not is_count(report.get("step")) or not is_count(report.get("stage")):
        curves.damaged += 1
        return
    seeds = report.get("seeds")
    curves.seeds |= {seed for seed in seeds if isinstance(seed, int)} if isinstance(seeds, list) else set()
    step = _over_stages(report["stage"], report["step"], starts)
    for name in names:
        if values := _flat(report, name):
            points = curves.numbers.setdefault(name, MetricPoints())
            points.steps += [step] * len(values)
            points.values += values


def _over_stages(stage: int, step: int, starts: Sequence[int]) -> float:
    return float(starts[min(stage, len(starts) - 1)] + step)


def _flat(line: Mapping[str, Any], name: str) -> list[float]:
    """One value for each seed; for a histogram, the share of the most frequent class."""
    values = line.get(HISTOGRAM if name == LARGEST else name)
    if not isinstance(values, list):
        return []
    if name == LARGEST:
        return [max(map(_number, shares), default=math.nan) for shares in values if isinstance(shares, list)]
    return [value if type(value) is float else _number(value) for value in values]


def _from_table(curves: Curves, path: Path, starts: Sequence[int]) -> None:
    """Take a finished run's evaluations from evaluations.csv, where their numbers are not rounded."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(_thinned(csv.DictReader(file)))
    except (OSError, ValueError, csv.Error):
        return
    for name in EVALUATED:
        points = MetricPoints()
        for row in rows:
            try:
                value = float(row.get(name) or "")
                step = _over_stages(int(row["stage"]), int(row["step"]), starts)
            except (ValueError, KeyError, TypeError, OverflowError):
                continue
            points.steps.append(step)
            points.values.append(value)
        if points.steps:
            curves.numbers[name] = points


def _thinned(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    kept: list[dict[str, Any]] = []
    every, steps, last = 1, -1, None
    for row in rows:
        where = (row.get("stage"), row.get("step"))
        steps, last = steps + (where != last), where
        if steps % every == 0:
            kept.append(row)
        if len(kept) > 4 * MOST_EVALUATIONS:
            places = list(dict.fromkeys((row.get("stage"), row.get("step")) for row in kept))
            wanted, every = set(places[::2]), 2 * every
            kept = [row for row in kept if (row.get("stage"), row.get("step")) in wanted]
    return kept


def _number(value: Any) -> float:
    """The number, or nan if it is none: null stands for what was not finite."""
    return float(value) if is_number(value) else math.nan
