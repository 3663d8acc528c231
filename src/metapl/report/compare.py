"""Runs beside each other: those that differ in their seeds alone are one row, and rows are compared seed by seed."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeVar

import numpy as np

from metapl.evaluate.statistics import Paired, mean_and_std, paired
from metapl.report import method
from metapl.report.method import Origin
from metapl.report.read import Loaded, table

T = TypeVar("T")

ALL_PAIRS = 6  # of so many rows on the same data, all pairs are shown; of more, each against the first


@dataclass(frozen=True)
class Row:
    """One experiment on one set of data: all finished runs with the same settings but for the seed."""

    name: str
    title: str
    data: str
    data_key: str
    source: str
    network: str
    labels: int | None
    origin: Origin
    runs: Sequence[Loaded]

    def scores(self, name: str) -> dict[int, float]:
        """One score of every seed; {} unless all runs have it."""
        each = [run.scores(name) for run in self.runs]
        return {seed: value for one in each for seed, value in one.items()} if all(each) else {}

    def spread(self, name: str = "accuracy") -> tuple[float, float, int] | None:
        """Mean, standard deviation and number of seeds."""
        scores = self.scores(name)
        return (*mean_and_std(np.array(list(scores.values()))), len(scores)) if scores else None

    @property
    def accuracy(self) -> float:
        """The mean."""
        found = self.spread()
        assert found is not None  # only finished runs are in rows
        return found[0]


def rows(loaded: Sequence[Loaded], origins: Mapping[str, Origin]) -> list[Row]:
    """Put runs together; a seed that was trained twice begins a row of its own, so that none counts twice."""
    found: list[list[Loaded]] = []
    keys: list[str] = []
    for run in loaded:
        if not run.finished:
            continue
        key, seeds = method.experiment(run), set(run.scores("accuracy"))
        place = next((i for i, own in enumerate(keys) if own == key and not seeds & _seeds(found[i])), None)
        if place is None:
            keys.append(key)
            found.append([run])
        else:
            found[place].append(run)
    return [_row(group, origins) for group in found]


def _seeds(group: Sequence[Loaded]) -> set[int]:
    return {seed for run in group for seed in run.scores("accuracy")}


def _row(group: Sequence[Loaded], origins: Mapping[str, Origin]) -> Row:
    first = group[0]
    more = f" and {len(group) - 1} more" if len(group) > 1 else ""
    data, model = table(first.settings.get("data")), table(first.settings.get("model"))
    return Row(
        name=first.name + more,
        title=method.title(first),
        data=first.run.data or "?",
        data_key=first.data_key,
        source=str(data.get("name", "?")),
        network=_network(model),
        labels=first.labels,
        origin=origins[first.anchor],
        runs=group,
    )


def _network(model: Mapping[str, object]) -> str:
    hidden = model.get("hidden")
    sizes = hidden if isinstance(hidden, list) else [model.get(name) for name in ("variant", "depth", "width")]
    shape = "-".join(str(size) for size in sizes if size is not None)
    return f"{model.get('name', '?')} {shape}".strip()


def over_splits(found: Sequence[Row]) -> list[tuple[Row, Row, Paired, int]]:
    """Compare experiments that were run on several splits, by all pairs of split and seed that both have."""
    families: dict[str, list[Row]] = {}
    for row in found:
        families.setdefault(method.experiment(row.runs[0], splits=False), []).append(row)
    compared = []
    several = [rows for rows in families.values() if len({row.data_key for row in rows}) > 1]
    for first, second in _some_pairs(several):
        ours, theirs = _units(second), _units(first)
        common = sorted(set(ours) & set(theirs))
        splits = len({key for key, _ in common})
        if splits > 1:
            told = paired(np.array([ours[unit] for unit in common]), np.array([theirs[unit] for unit in common]))
            compared.append((second[0], first[0], told, splits))
    return compared


def _units(group: Sequence[Row]) -> dict[tuple[str, int], float]:
    return {(row.data_key, seed): value for row in group for seed, value in row.scores("accuracy").items()}


def _some_pairs(group: Sequence[T]) -> Iterable[tuple[T, T]]:
    return combinations(group, 2) if len(group) <= ALL_PAIRS else ((group[0], other) for other in group[1:])


def by_data(found: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows that were judged on the same data."""
    groups: dict[str, list[Row]] = {}
    for row in found:
        groups.setdefault(row.data_key, []).append(row)
    return groups


def pairs(group: Sequence[Row]) -> Iterator[tuple[Row, Row, Paired]]:
    """Compare rows on the same data by the seeds that both have: all pairs of a few, of many each with the first."""
    for first, second in _some_pairs(group):
        ours, theirs = second.scores("accuracy"), first.scores("accuracy")
        common = sorted(set(ours) & set(theirs))
        if common:
            found = paired(np.array([ours[seed] for seed in common]), np.array([theirs[seed] for seed in common]))
            yield second, first, found
