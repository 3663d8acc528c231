"""Compare runs: runs that differ only in their seeds are one experiment; experiments are compared seed by seed."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeVar

import numpy as np

from metapl.evaluate.statistics import Paired, mean_and_std, paired
from metapl.report import method
from metapl.report.method import Origin
from metapl.report.read import ReportedRun, table

T = TypeVar("T")

ALL_PAIRS = 6  # up to so many experiments on the same data: all pairs are compared; of more, each with the first


@dataclass(frozen=True)
class Experiment:
    """All finished runs on the same data with the same settings except for the seed."""

    name: str
    title: str
    data: str
    data_key: str
    source: str
    network: str
    labels: int | None
    origin: Origin
    runs: Sequence[ReportedRun]

    def scores(self, name: str) -> dict[int, float]:
        """One score of every seed; {} unless all runs have it."""
        each = [run.scores(name) for run in self.runs]
        return {seed: value for of_run in each for seed, value in of_run.items()} if all(each) else {}

    def spread(self, name: str = "accuracy") -> tuple[float, float, int] | None:
        """Mean, standard deviation and number of seeds."""
        scores = self.scores(name)
        return (*mean_and_std(np.array(list(scores.values()))), len(scores)) if scores else None

    @property
    def accuracy(self) -> float:
        """The mean accuracy over seeds."""
        spread = self.spread()
        assert spread is not None  # experiments have finished runs only
        return spread[0]


def by_experiment(loaded: Sequence[ReportedRun], origins: Mapping[str, Origin]) -> list[Experiment]:
    """Group runs by experiment; a seed that was trained twice begins a new one, so that no seed counts twice."""
    groups: list[list[ReportedRun]] = []
    keys: list[str] = []
    for run in loaded:
        if not run.finished:
            continue
        key, seeds = method.experiment_key(run), set(run.scores("accuracy"))
        place = next((i for i, known in enumerate(keys) if known == key and not seeds & _seeds(groups[i])), None)
        if place is None:
            keys.append(key)
            groups.append([run])
        else:
            groups[place].append(run)
    return [_experiment(group, origins) for group in groups]


def _seeds(group: Sequence[ReportedRun]) -> set[int]:
    return {seed for run in group for seed in run.scores("accuracy")}


def _experiment(group: Sequence[ReportedRun], origins: Mapping[str, Origin]) -> Experiment:
    first = group[0]
    more = f" and {len(group) - 1} more" if len(group) > 1 else ""
    data, model = table(first.settings.get("data")), table(first.settings.get("model"))
    return Experiment(
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


def over_splits(experiments: Sequence[Experiment]) -> list[tuple[Experiment, Experiment, Paired, int]]:
    """Compare experiments that were run on several splits, by all pairs of split and seed that both have."""
    families: dict[str, list[Experiment]] = {}
    for experiment in experiments:
        key = method.experiment_key(experiment.runs[0], splits=False)
        families.setdefault(key, []).append(experiment)
    compared = []
    several = [family for family in families.values() if len({experiment.data_key for experiment in family}) > 1]
    for first, second in _compared_pairs(several):
        ours, theirs = _units(second), _units(first)
        common = sorted(set(ours) & set(theirs))
        splits = len({key for key, _ in common})
        if splits > 1:
            difference = paired(np.array([ours[unit] for unit in common]), np.array([theirs[unit] for unit in common]))
            compared.append((second[0], first[0], difference, splits))
    return compared


def _units(group: Sequence[Experiment]) -> dict[tuple[str, int], float]:
    """Accuracies by split and seed."""
    return {
        (experiment.data_key, seed): value
        for experiment in group
        for seed, value in experiment.scores("accuracy").items()
    }


def _compared_pairs(group: Sequence[T]) -> Iterable[tuple[T, T]]:
    return combinations(group, 2) if len(group) <= ALL_PAIRS else ((group[0], other) for other in group[1:])


def by_data(experiments: Sequence[Experiment]) -> dict[str, list[Experiment]]:
    """Group experiments that were evaluated on the same data."""
    groups: dict[str, list[Experiment]] = {}
    for experiment in experiments:
        groups.setdefault(experiment.data_key, []).append(experiment)
    return groups


def pairs(group: Sequence[Experiment]) -> Iterator[tuple[Experiment, Experiment, Paired]]:
    """Compare experiments on the same data by their common seeds: all pairs of few, or each with the first of many."""
    for first, second in _compared_pairs(group):
        ours, theirs = second.scores("accuracy"), first.scores("accuracy")
        common = sorted(set(ours) & set(theirs))
        if common:
            difference = paired(np.array([ours[seed] for seed in common]), np.array([theirs[seed] for seed in common]))
            yield second, first, difference
