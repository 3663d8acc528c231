"""The keeper calls the guards at every report, for all seeds that train together.

What the keeper remembers depends on the reports alone. So a resumed run shows it the earlier reports (`replay`), and it
neither warns twice nor forgets.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.guards.checks import GUARDS, Bad, Means, Observation, means_of
from metapl.guards.facts import Facts
from metapl.guards.settings import Guards, Level
from metapl.metrics import by_network, learns_unlabeled
from metapl.schema import ConfigError
from metapl.scores import FINITE
from metapl.types import Numbers

MOST_OBSERVATIONS = 50  # observations of a stage, at most: reports that are closer are averaged


class StoppedError(ConfigError):
    """A guard has stopped the run; the text says why and what to try."""


class Alarm(NamedTuple):
    """A guard's warning."""

    guard: str
    level: Level
    stage: int
    step: int  # over all stages
    seeds: tuple[int, ...]
    good_steps: int  # over all stages: weights after so many were still good
    text: str  # what is wrong and what to try


@dataclass
class _Memory:
    """What is remembered within a stage."""

    best: NDArray[np.float64]  # as in `Observation`
    bad: dict[str, NDArray[np.int64]]  # guard -> [R] bad observations in a row
    seen: dict[str, int]  # guard -> observations that it could judge
    waiting: list[tuple[int, Numbers]] = field(default_factory=list)  # (steps, means) since the last observation
    before: Means = field(default_factory=dict)


class Keeper:
    """Takes one report after another; `read_report` returns the new warnings."""

    def __init__(self, settings: Guards, stages: Sequence[Facts], seeds: Sequence[int]) -> None:
        self._settings, self._stages, self._seeds = settings, stages, seeds
        self._starts = [sum(facts.steps for facts in stages[:i]) for i in range(len(stages))]
        self._said: set[str] = set()
        self._step = 0  # of the report before, over all stages
        self._labeled: tuple[tuple[str, float], NDArray[np.float64]] | None = None
        self._start: Means = {}
        self._stage, self._memory = 0, self._begin(0)

    def read_report(self, stage: int, step: int, numbers: Numbers) -> list[Alarm]:
        """Take the next report and return the new warnings."""
        if stage != self._stage:
            self._stage, self._memory = stage, self._begin(stage)
        facts, memory, begin = self._stages[stage], self._memory, self._starts[stage]
        first, self._step = max(self._step, begin), step
        alarms = self._nonfinite(stage, first, step, numbers)
        memory.waiting.append((step - first, numbers))
        last = step == begin + facts.steps
        if last or MOST_OBSERVATIONS * sum(steps for steps, _ in memory.waiting) >= facts.steps:
            observed = Observation(facts, last, means_of(memory.waiting), memory.before, memory.best, self._start)
            memory.waiting = []
            if step - begin > facts.quiet_steps:
                alarms += self._judge(stage, step, observed)
            self._remember(observed)
        return alarms

    def read_line(self, line: Mapping[str, Any]) -> list[Alarm]:
        """Take a report as metrics.jsonl has it: steps count from the start of their stage, and null is not finite.

        Reports of other seeds are ignored.
        """
        if list(line["seeds"]) != list(self._seeds):
            return []
        numbers = {name: np.array(line[name], np.float32) for name in line if name not in ("seeds", "stage", "step")}
        return self.read_report(line["stage"], self._starts[line["stage"]] + line["step"], numbers)

    def _begin(self, stage: int) -> _Memory:
        """Start with the accuracy of the supervised stage before as the teacher's best, if both saw the same view."""
        best = np.zeros(len(self._seeds))
        if self._labeled is not None and self._labeled[0] == self._stages[stage].labeled_as:
            best = self._labeled[1]
        return _Memory(best, {name: np.zeros(len(self._seeds), np.int64) for name in GUARDS}, dict.fromkeys(GUARDS, 0))

    def _judge(self, stage: int, step: int, observed: Observation) -> list[Alarm]:
        alarms, memory = [], self._memory
        for name, guard in GUARDS.items():
            level: Level = getattr(self._settings, name)
            bad = None if level == "off" or name in self._said else guard.check(observed)
            if bad is None:
                continue
            memory.seen[name] += 1
            memory.bad[name] = np.where(bad, memory.bad[name] + 1, 0)
            enough = memory.bad[name] >= self._settings.patience
            if guard.whole_stage and observed.last:
                enough |= memory.bad[name] == memory.seen[name]
            if enough.any():
                text = f"{guard.says(observed, enough)}. Try: {guard.advice}"
                alarms.append(self._alarm(name, stage, step, enough, step, text))
        return alarms

    def _remember(self, observed: Observation) -> None:
        """Keep what later observations are compared with."""
        self._memory.before = observed.numbers
        if "teacher_labeled_accuracy" in observed.numbers:
            self._memory.best = np.fmax(observed.best, observed.numbers["teacher_labeled_accuracy"])
        if observed.last:
            accuracy = observed.numbers.get("labeled_accuracy")
            self._labeled = None if accuracy is None else (observed.facts.labeled_as, np.nan_to_num(accuracy))
            if self._stage == 0 and not learns_unlabeled(observed.numbers):
                self._start = {name: value for name, value in observed.numbers.items() if name.endswith("_accuracy")}

    def _nonfinite(self, stage: int, first: int, step: int, numbers: Numbers) -> list[Alarm]:
        """Warn about numbers that are not finite: of which network, from which step on, for which seeds."""
        broken = {name: ~np.isfinite(values).reshape(len(values), -1).all(-1) for name, values in numbers.items()}
        bad = np.any(list(broken.values()), axis=0) if broken else np.zeros(len(self._seeds), bool)
        if self._settings.nonfinite == "off" or "nonfinite" in self._said or not bad.any():
            return []
        names = [name for name, seeds in broken.items() if seeds.any()]
        begin = self._starts[stage]
        breaks = _breaks(numbers, names, first - begin, step - begin)
        parts = [text for _, text in breaks] or [f"not finite: {', '.join(names)}"]
        # Numbers that break at step b come from the weights after b − 1 steps; those after b − 2 steps were still good.
        good = begin + breaks[0][0] - 2 if breaks else first
        where = f"between steps {first - begin + 1:,} and {step - begin:,} of stages.{stage}"
        tries = [f"stages.{stage}.method.{name}" for name in self._stages[stage].optimizers]
        text = (
            f"training diverged {where}: {'; '.join(parts)}. Try: a lower learning_rate, clip_norm 1 or more "
            f"warmup_steps ({', '.join(tries)})"
        )
        return [self._alarm("nonfinite", stage, step, bad, max(good, 0), text)]

    def _alarm(self, name: str, stage: int, step: int, bad: Bad, good_steps: int, text: str) -> Alarm:
        self._said.add(name)
        seeds = tuple(seed for seed, is_bad in zip(self._seeds, bad, strict=True) if is_bad)
        if len(self._seeds) > 1:
            who = f"all {len(seeds)} seeds" if len(seeds) == len(self._seeds) else _list(seeds)
            text = f"{who}: {text}"
        return Alarm(name, getattr(self._settings, name), stage, step, seeds, good_steps, text)


def _breaks(numbers: Numbers, names: Sequence[str], first: int, last: int) -> list[tuple[int, str]]:
    """Return at which step each network broke, the earliest first: its share of finite steps says where they end."""
    parts = []
    for network, broken in by_network(names).items():
        share = numbers.get(FINITE + network)
        if share is not None and (share < 1).any():
            step = first + round(float(share.min()) * (last - first)) + 1
            parts.append((step, f"the {network}'s numbers are not finite from step {step:,} on ({', '.join(broken)})"))
    return sorted(parts)


def _list(seeds: Sequence[int]) -> str:
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {', '.join(map(str, seeds))}"


def replay(keeper: Keeper, lines: Iterable[str]) -> list[Alarm]:
    """Show a resumed run's keeper the lines of metrics.jsonl, and return the warnings that they gave."""
    return [alarm for line in lines for alarm in keeper.read_line(json.loads(line))]
