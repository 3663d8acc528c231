"""What a study is: arms, the cases that each arm is tried in, the pairs to compare, the seeds.

Every arm is run in every case, with the same seeds, so that a pair of arms is compared seed by seed within a case. A
run's settings are those of the arm's preset, then the study's `set` (with --small, also `small.set`), the case's, and
the arm's; each names settings as the flags of `metapl train` do. In the name of a preset, `{case}` stands for the case.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from annotated_types import Ge, Lt, MinLen

Settings = dict[str, Any]
Kind = Literal["confirmatory", "exploratory"]
Over = Literal["seeds", "cases"]
Part = Literal["test", "val"]  # what accuracies are measured on
Score = Literal["accuracy", "top5_accuracy", "real_accuracy"]
FigureKind = Literal["none", "bars", "lines", "curves"]
LAST_STAGE = -1


@dataclass(frozen=True)
class StudyCase:
    """One setting of the task that all arms are tried in: data, number of labels, …"""

    title: str = ""
    """What the table calls it."""
    set: Settings | None = None
    """Settings that make the case."""
    seeds: int = 0
    """Another number of seeds; 0: the study's."""
    only_small: bool = False
    """Only --small runs this case."""
    x: float | None = None
    """Where the case stands on the axis of the study's figure, if that has one."""


@dataclass(frozen=True)
class PaperScores:
    """What the paper reports, in percent."""

    accuracy: float | None = None
    std: float | None = None
    """Standard deviation of the accuracy."""
    top5_accuracy: float | None = None
    real_accuracy: float | None = None
    """Precision@1 on ImageNet-ReaL."""


@dataclass(frozen=True)
class Arm:
    """One row of the table: a method with its settings."""

    preset: str = ""
    """The preset that the arm starts from; in its name, {case} stands for the case."""
    small_preset: str = ""
    """The preset with --small; none named: the preset's name with `small.preset_suffix`."""
    title: str = ""
    """What the table calls it."""
    about: str = ""
    """What it is, in a sentence for readers who do not know the title's words."""
    set: Settings | None = None
    """Settings that make the arm."""
    cases: tuple[str, ...] = ()
    """The cases that the arm is run in; none named: all."""
    paper: Mapping[str, PaperScores] | None = None
    """What the paper reports, for each case."""
    run_of: str = ""
    """Take this row from the run of another arm, and run nothing."""
    after_stage: int = LAST_STAGE
    """Measure after this stage, counted from 0; −1: after the last one. The run needs eval_every_steps for it."""


@dataclass(frozen=True)
class Pair:
    """A comparison: how much better an arm is than its control, seed by seed."""

    arm: str = ""
    control: str = ""
    kind: Kind = "exploratory"
    """confirmatory: fixed before the runs, and corrected for the number of such comparisons (Holm)."""
    title: str = ""
    """What the comparison is called; none: "ARM − CONTROL"."""
    over: Over = "seeds"
    """seeds: compare seed by seed, in each case. cases: compare case by case, with the means over a case's seeds; for
    cases that are draws of the same task."""


@dataclass(frozen=True)
class Small:
    """What --small changes, for a laptop."""

    seeds: Annotated[int, Ge(0)] = 0
    """Another number of seeds; 0: the study's."""
    set: Settings | None = None
    cases: tuple[str, ...] = ()
    """Only these cases; none named: all."""
    arms: tuple[str, ...] = ()
    """Only these arms; none named: all."""
    preset_suffix: str = ""
    """What the names of the presets end in, for instance _small."""


@dataclass(frozen=True)
class Curve:
    """One line of a figure over the steps: the mean over the seeds of a number that runs report."""

    arm: str = ""
    metric: str = ""
    title: str = ""


@dataclass(frozen=True)
class FigureSettings:
    """The study's own figure, beside the forest plot."""

    kind: FigureKind = "none"
    """bars: one for each arm; lines: one for each arm over the cases' x; curves: reported numbers over the steps."""
    title: str = ""
    x_title: str = ""
    """Title of the axis of the cases' x."""
    curves: tuple[Curve, ...] = ()


@dataclass(frozen=True)
class Study:
    """A whole study."""

    title: str = ""
    question: str = ""
    """What the study asks, in a sentence or two."""
    seeds: Annotated[int, Ge(1)] = 10
    """Seeds of every run."""
    first_seed: Annotated[int, Ge(0), Lt(2**31)] = 0
    set: Settings | None = None
    """Settings that all runs share."""
    cases: Annotated[Mapping[str, StudyCase], MinLen(1)] = None  # type: ignore[assignment]
    arms: Annotated[Mapping[str, Arm], MinLen(1)] = None  # type: ignore[assignment]
    pairs: tuple[Pair, ...] = ()
    small: Small = Small()
    scores: tuple[Score, ...] = ("accuracy",)
    """What the table shows; comparisons are of the first one."""
    figure: FigureSettings = FigureSettings()

    def rows(self) -> list[tuple[str, str]]:
        """All (case, arm) of the table, case by case."""
        return [
            (case, name) for case in self.cases for name, arm in self.arms.items() if not arm.cases or case in arm.cases
        ]

    def runs(self) -> list[tuple[str, str]]:
        """All (case, arm) that are run."""
        return [(case, arm) for case, arm in self.rows() if not self.arms[arm].run_of]

    def seeds_of(self, case: str) -> int:
        """How many seeds the runs of a case have."""
        return self.cases[case].seeds or self.seeds
