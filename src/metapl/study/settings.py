"""What a study is: arms, the cases that each arm is tried in, the pairs to compare, the seeds.

Every arm is run in every case, with the same seeds, so that a pair of arms is compared seed by seed within a case. A
run's settings are those of the arm's preset, then the study's `set`, the case's, the arm's, and with --small the
study's `small.set`; each names settings as the flags of `metapl train` do.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, Lt, MinLen

from metapl import config as configs
from metapl.config import Config
from metapl.schema import ConfigError, to_dict

Settings = dict[str, Any]
Kind = Literal["confirmatory", "exploratory"]
Part = Literal["test", "val"]  # what accuracies are measured on


@dataclass(frozen=True)
class StudyCase:
    """One setting of the task that all arms are tried in: data, number of labels, …"""

    title: str = ""
    """What the table calls it."""
    set: Settings | None = None
    """Settings that make the case."""


@dataclass(frozen=True)
class Arm:
    """One row of the table: a method with its settings."""

    preset: str = ""
    """The preset that the arm starts from."""
    title: str = ""
    """What the table calls it."""
    set: Settings | None = None
    """Settings that make the arm."""
    cases: tuple[str, ...] = ()
    """The cases that the arm is run in; none named: all."""
    paper: float | None = None
    """The paper's accuracy in percent, if it has one."""
    paper_std: float | None = None
    """The paper's standard deviation in percent."""


@dataclass(frozen=True)
class Pair:
    """A comparison: how much better an arm is than its control, seed by seed."""

    arm: str = ""
    control: str = ""
    kind: Kind = "exploratory"
    """confirmatory: fixed before the runs, and corrected for the number of such comparisons (Holm)."""


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

    def runs(self) -> list[tuple[str, str]]:
        """All (case, arm) that are run, case by case."""
        return [
            (case, name) for case in self.cases for name, arm in self.arms.items() if not arm.cases or case in arm.cases
        ]


def studies() -> dict[str, str]:
    """Names of the studies that come with metapl, each with its title."""
    files = sorted((resources.files("metapl") / "studies").iterdir(), key=lambda file: file.name)
    return {
        Path(f.name).stem: _toml(f.read_text("utf-8"), f.name).get("title", "")
        for f in files
        if f.name.endswith(".toml")
    }


def load(name: str, small: bool) -> Study:
    """Read a study by its name or from a file; `small` applies what it changes for a laptop."""
    if name in studies():
        text = (resources.files("metapl") / "studies" / f"{name}.toml").read_text("utf-8")
    elif Path(name).is_file():
        text = Path(name).read_text("utf-8")
    else:
        raise ConfigError(f"{name!r} is neither a study ({', '.join(studies())}) nor a TOML file")
    study = parse(text, name)
    return shrink(study) if small else study


def parse(text: str, origin: str) -> Study:
    """Turn TOML into a checked study; `origin` is named in errors."""
    values = _toml(text, origin)
    try:
        cases = {
            name: _table(StudyCase, value, f"cases.{name}") for name, value in values.pop("cases", {"all": {}}).items()
        }
        arms = {name: _table(Arm, value, f"arms.{name}") for name, value in values.pop("arms", {}).items()}
        pairs = tuple(_table(Pair, value, f"pairs.{i}") for i, value in enumerate(values.pop("pairs", [])))
        small = _table(Small, values.pop("small", {}), "small")
        study = _table(Study, values, "study", cases=cases, arms=arms, pairs=pairs, small=small)
        _check(study)
    except ConfigError as error:
        raise ConfigError(f"{origin}: {error}") from None
    return study


def shrink(study: Study) -> Study:
    """The study as --small runs it."""
    small = study.small
    cases = {name: case for name, case in study.cases.items() if not small.cases or name in small.cases}
    arms = {name: arm for name, arm in study.arms.items() if not small.arms or name in small.arms}
    pairs = tuple(pair for pair in study.pairs if pair.arm in arms and pair.control in arms)
    return Study(
        study.title, study.question, small.seeds or study.seeds, study.first_seed,
        (study.set or {}) | (small.set or {}), cases, arms, pairs, small,
    )  # fmt: skip


def config_of(study: Study, case: str, arm: str) -> Config:
    """The settings of one run."""
    one = study.arms[arm]
    try:
        config = configs.load(one.preset)
        values = to_dict(config)
        for changes in (study.set, study.cases[case].set, one.set):
            for name, value in (changes or {}).items():
                _put(values, name, value)
        config = configs.from_values(values | {"seed": study.first_seed})
    except ConfigError as error:
        raise ConfigError(f"case {case}, arm {arm}: {error}") from None
    return config


def _put(values: dict[str, Any], name: str, value: Any) -> None:
    """Set one setting by its flag's name: stages.0.method.weight."""
    *path, last = name.split(".")
    at: Any = values
    try:
        for word in path:
            at = at[int(word)] if isinstance(at, list | tuple) else at.setdefault(word, {})
        at[int(last) if isinstance(at, list) else last] = value
    except (KeyError, IndexError, ValueError, TypeError, AttributeError):
        raise ConfigError(f"there is no setting {name!r}") from None


def _table(kind: Any, values: Any, place: str, **given: Any) -> Any:
    """A dataclass from a TOML table; unknown keys are errors. The tables `set` are taken as they are."""
    if not isinstance(values, dict):
        raise ConfigError(f"{place} takes a table, got {values!r}")
    free = values.pop("set", None)
    if free is not None and not isinstance(free, dict):
        raise ConfigError(f"{place}.set takes a table of settings, got {free!r}")
    fields = dict(values)
    known = {field for field in kind.__dataclass_fields__ if field not in ("set", *given)}
    if unknown := set(fields) - known:
        raise ConfigError(f"{place} has no {', '.join(sorted(unknown))}; it has {', '.join(sorted(known))}")
    extra = {"set": free} if "set" in kind.__dataclass_fields__ else {}
    for name, value in fields.items():
        if isinstance(value, list):
            fields[name] = tuple(value)
    try:
        return kind(**fields, **extra, **given)
    except TypeError as error:
        raise ConfigError(f"{place}: {error}") from None


def _check(study: Study) -> None:
    """Check fields against each other: every name that is used exists, and every run's settings are valid."""
    if not study.arms:
        raise ConfigError("a study needs arms")
    _check_numbers(study)
    for pair in study.pairs:
        for name in (pair.arm, pair.control):
            if name not in study.arms:
                raise ConfigError(f"pairs: there is no arm {name!r}; the arms are {', '.join(study.arms)}")
        if pair.kind not in ("confirmatory", "exploratory"):
            raise ConfigError(f"pairs: kind takes confirmatory or exploratory, got {pair.kind!r}")
    for name, arm in study.arms.items():
        if wrong := set(arm.cases) - set(study.cases):
            raise ConfigError(f"arms.{name}.cases: there is no case {', '.join(sorted(wrong))}")
    for case, arm_name in study.runs():
        config_of(study, case, arm_name)


def _check_numbers(study: Study) -> None:
    """Check the seeds, and the names that --small chooses."""
    for name, number, least in (("seeds", study.seeds, 1), ("first_seed", study.first_seed, 0)):
        if type(number) is not int or number < least:
            raise ConfigError(f"{name} takes a whole number of at least {least}, got {number!r}")
    for name, chosen, known in (("cases", study.small.cases, study.cases), ("arms", study.small.arms, study.arms)):
        if wrong := set(chosen) - set(known):
            raise ConfigError(f"small.{name}: there is no {', '.join(sorted(wrong))}")


def _toml(text: str, origin: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{origin}: {error}") from None
