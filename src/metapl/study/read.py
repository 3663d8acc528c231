"""Read a study from TOML, check it, and make the settings of its runs."""

import copy
import tomllib
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any, get_args

from metapl import config as configs
from metapl.config import Config
from metapl.schema import ConfigError, to_dict
from metapl.study.settings import (
    LAST_STAGE,
    Arm,
    Curve,
    FigureKind,
    FigureSettings,
    Kind,
    Over,
    Pair,
    PaperScores,
    Score,
    Small,
    Study,
    StudyCase,
)


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
        file: Any = resources.files("metapl") / "studies" / f"{name}.toml"
    elif not (file := Path(name)).is_file():
        raise ConfigError(f"{name!r} is neither a study ({', '.join(studies())}) nor a TOML file")
    try:
        study = parse(file.read_text("utf-8-sig"), name)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{name} cannot be read as UTF-8 text: {error}") from None
    return shrink(study) if small else full(study)


def parse(text: str, origin: str) -> Study:
    """Turn TOML into a checked study; `origin` is named in errors."""
    values = _toml(text, origin)
    try:
        cases = {
            name: _table(StudyCase, value, f"cases.{name}") for name, value in values.pop("cases", {"all": {}}).items()
        }
        arms = {name: _arm(value, f"arms.{name}") for name, value in values.pop("arms", {}).items()}
        pairs = tuple(_table(Pair, value, f"pairs.{i}") for i, value in enumerate(values.pop("pairs", [])))
        small = _table(Small, values.pop("small", {}), "small")
        figure = _figure(values.pop("figure", {}))
        study = _table(Study, values, "study", cases=cases, arms=arms, pairs=pairs, small=small, figure=figure)
        check(study)
    except ConfigError as error:
        raise ConfigError(f"{origin}: {error}") from None
    return study


def full(study: Study) -> Study:
    """The study without the cases that only --small runs."""
    return replace(study, cases={name: case for name, case in study.cases.items() if not case.only_small})


def shrink(study: Study) -> Study:
    """The study as --small runs it."""
    small = study.small
    cases = {name: case for name, case in study.cases.items() if not small.cases or name in small.cases}
    arms = {
        name: replace(arm, preset=arm.small_preset or arm.preset + small.preset_suffix)
        for name, arm in study.arms.items()
        if (not small.arms or name in small.arms) and (not arm.cases or not cases.keys().isdisjoint(arm.cases))
    }
    pairs = tuple(pair for pair in study.pairs if pair.arm in arms and pair.control in arms)
    settings = (study.set or {}) | (small.set or {})
    return replace(study, seeds=small.seeds or study.seeds, set=settings, cases=cases, arms=arms, pairs=pairs)


def config_of(study: Study, case: str, arm: str) -> Config:
    """The settings of one run."""
    one = study.arms[arm]
    try:
        config = configs.load(one.preset.replace("{case}", case))
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
        at[int(last) if isinstance(at, list) else last] = copy.deepcopy(value)  # later settings may change a part of it
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


def _arm(values: Any, place: str) -> Arm:
    """An arm with the paper's scores of each case."""
    paper = values.pop("paper", None) if isinstance(values, dict) else None
    if paper is not None and not isinstance(paper, dict):
        raise ConfigError(f"{place}.paper takes a table of cases, as in {{cifar10_4k = {{accuracy = 96.11}}}}")
    scores = {case: _table(PaperScores, one, f"{place}.paper.{case}") for case, one in (paper or {}).items()}
    return replace(_table(Arm, values, place), paper=scores or None)


def _figure(values: Any) -> FigureSettings:
    curves = values.pop("curves", []) if isinstance(values, dict) else []
    figure: FigureSettings = _table(FigureSettings, values, "figure")
    return replace(figure, curves=tuple(_table(Curve, one, f"figure.curves.{i}") for i, one in enumerate(curves)))


def check(study: Study) -> None:
    """Check fields against each other: every name that is used exists, and every run's settings are valid."""
    if not study.arms:
        raise ConfigError("a study needs arms")
    _check_numbers(study)
    for place, name in _arms_named(study):
        if name not in study.arms:
            raise ConfigError(f"{place}: there is no arm {name!r}; the arms are {', '.join(study.arms)}")
    for place, value, known in _choices(study):
        if value not in known:
            raise ConfigError(f"{place} takes {', '.join(known)}, got {value!r}")
    _check_arms(study)
    for one in (full(study), shrink(study)):
        for case, arm_name in one.runs():
            config_of(one, case, arm_name)
        _check_measured(one)


def _check_arms(study: Study) -> None:
    """Check the cases that arms name, and that a row of another run needs no preset."""
    for name, arm in study.arms.items():
        if wrong := (set(arm.cases) | set(arm.paper or {})) - set(study.cases):
            raise ConfigError(f"arms.{name}: there is no case {', '.join(sorted(wrong))}")
        if arm.run_of and (arm.preset or arm.set):
            raise ConfigError(
                f"arms.{name}: run_of takes a row from another arm's run, so preset and set must be absent"
            )


def _check_measured(study: Study) -> None:
    """Refuse a row after a stage at whose end its run measures nothing."""
    for case, name in study.rows():
        arm = study.arms[name]
        config = config_of(study, case, arm.run_of or name)
        if arm.after_stage in (LAST_STAGE, len(config.stages) - 1):
            continue
        if not 0 <= arm.after_stage < len(config.stages):
            raise ConfigError(
                f"arms.{name}: after_stage = {arm.after_stage}, but its run has {len(config.stages)} stages"
            )
        if not config.eval_every_steps:
            raise ConfigError(
                f"arms.{name}: after_stage = {arm.after_stage}, but its run is measured at its end only; set "
                "eval_every_steps to the stage's steps"
            )


def _arms_named(study: Study) -> list[tuple[str, str]]:
    """Where arms are named, and the names."""
    return [
        *(("pairs", name) for pair in study.pairs for name in (pair.arm, pair.control)),
        *((f"arms.{name}.run_of", arm.run_of) for name, arm in study.arms.items() if arm.run_of),
        *(("figure.curves", curve.arm) for curve in study.figure.curves),
    ]


def _choices(study: Study) -> list[tuple[str, str, tuple[str, ...]]]:
    """Words that must be one of a few."""
    return [
        *(("pairs: kind", pair.kind, get_args(Kind)) for pair in study.pairs),
        *(("pairs: over", pair.over, get_args(Over)) for pair in study.pairs),
        *(("scores", score, get_args(Score)) for score in study.scores),
        ("figure.kind", study.figure.kind, get_args(FigureKind)),
    ]


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
    except ValueError as error:  # of TOML, or of a number with thousands of digits
        raise ConfigError(f"{origin}: {error}") from None
    except RecursionError:
        raise ConfigError(f"{origin}: too many nested brackets") from None
