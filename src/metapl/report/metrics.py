"""A run's curves, out of metrics.jsonl: short files as a whole, of long ones lines at equal distances.

A hundred thousand lines are a hundred megabytes of JSON, and fifty such runs would take minutes to read. A page has
room for some hundred points, so that of a long file some lines are picked; the page says so. Evaluations are rare and
matter more: all of them count, or, if there are very many, every second, fourth, … one.
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

WHOLE_BYTES = 4 << 20  # files up to this long are read as a whole
PICKED = 1000  # lines of a longer one
FEWEST = 200  # however long its lines are
MOST_EVALUATIONS = 4000
_BLOCK, _LARGE_BLOCK = 1 << 14, 1 << 20
_EVALUATION = b'"test_accuracy"'
EVALUATED = ("test_accuracy", "val_accuracy")


@dataclass
class Points:
    """Values of one number, with the steps that they are of; nan is what was not finite."""

    steps: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def arrays(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Both, ordered by step."""
        steps, values = np.array(self.steps, float), np.array(self.values, float)
        values[~np.isfinite(values)] = np.nan
        order = np.argsort(steps, kind="stable")
        return steps[order], values[order]


@dataclass
class Curves:
    """What a run has written down on its way."""

    numbers: dict[str, Points] = field(default_factory=dict)
    reports: int = 0  # lines that were read
    of_reports: int = 0  # lines that there are; about, if not all were read
    seeds: set[int] = field(default_factory=set)
    damaged: int = 0  # lines that are no JSON, or not of a report

    @property
    def whole(self) -> bool:
        """Was every line read?"""
        return self.reports == self.of_reports


class Evaluations:
    """Lines with an evaluation, of a file that may grow: what was looked through once is not read again.

    A file that was cut is read anew; a resumed run writes the same bytes again (journal.py), so that one that has grown
    back meanwhile has the same lines as before.
    """

    def __init__(self) -> None:
        self._forget(None)

    def _forget(self, file: tuple[int, int] | None) -> None:
        self._file, self._end, self._kept, self._count, self._every = file, 0, list[bytes](), 0, 1

    def read(self, path: Path) -> list[bytes]:
        """All of them; every second one is let go whenever there are too many."""
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            if (found.st_dev, found.st_ino) != self._file or found.st_size < self._end:
                self._forget((found.st_dev, found.st_ino))
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
    """Read what there is of these numbers; a file that is missing or damaged gives fewer curves, never an error."""
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


class Remembering:
    """Reads the same runs again and again, and of long files only what is new."""

    def __init__(self) -> None:
        self._evaluations: dict[Path, Evaluations] = {}

    def read(self, run: Path, stage_steps: Sequence[int], names: Collection[str]) -> Curves:
        """As `read` does."""
        return read(run, stage_steps, names, self._evaluations.setdefault(run, Evaluations()))


Read = Callable[[Path, Sequence[int], Collection[str]], Curves]


def _all(path: Path) -> Iterator[bytes]:
    """All but a last one that is half written."""
    with path.open("rb") as file:
        yield from (line for line in file if line.strip() and line.endswith((b"\n", b"}")))


def _picked(path: Path, size: int) -> Iterator[bytes]:
    """Lines that begin at or after places at equal distances, and the last whole one."""
    with path.open("rb") as file:
        number = file.fileno()
        first = _line_after(number, 0, size)
        if first is None:
            return
        count = int(min(PICKED, max(FEWEST, 4 * WHOLE_BYTES // (first[1] + 1))))
        seen = -1
        for place in np.linspace(0, size, count, endpoint=False).astype(int).tolist():
            if place <= seen:  # inside a long line, after which it goes on with the one that is there already
                continue
            found = _line_after(number, place, size)
            if found is None:
                return
            seen = found[0]
            yield os.pread(number, found[1], seen)


def _line_after(file: int, place: int, size: int) -> tuple[int, int] | None:
    """Where the first whole line from a place on begins, and its length; None if the file ends before."""
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
    """Lines with a word in them; the others are not even told apart, which is most of the time that lines take.

    The file is left where the next line begins: one that is half written is for the next time.
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
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not is_count(found.get("step")) or not is_count(found.get("stage")):
        curves.damaged += 1
        return
    seeds = found.get("seeds")
    curves.seeds |= {seed for seed in seeds if isinstance(seed, int)} if isinstance(seeds, list) else set()
    step = _over_stages(found["stage"], found["step"], starts)
    for name in names:
        if values := _flat(found, name):
            points = curves.numbers.setdefault(name, Points())
            points.steps += [step] * len(values)
            points.values += values


def _over_stages(stage: int, step: int, starts: Sequence[int]) -> float:
    return float(starts[min(stage, len(starts) - 1)] + step)


def _flat(line: Mapping[str, Any], name: str) -> list[float]:
    """One value for each seed; of a histogram, the share of the most frequent class."""
    values = line.get(HISTOGRAM if name == LARGEST else name)
    if not isinstance(values, list):
        return []
    if name == LARGEST:
        return [max(map(_number, one), default=math.nan) for one in values if isinstance(one, list)]
    return [one if type(one) is float else _number(one) for one in values]


def _from_table(curves: Curves, path: Path, starts: Sequence[int]) -> None:
    """Take evaluations of a finished run from evaluations.csv, where their numbers are whole."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(_thinned(csv.DictReader(file)))
    except (OSError, ValueError, csv.Error):
        return
    for name in EVALUATED:
        points = Points()
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
    """Not a number where there is none: null stands for what was not finite."""
    return float(value) if is_number(value) else math.nan
