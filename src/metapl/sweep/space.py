"""What a sweep tries: a range for each setting, named like its flag.

The default ranges are ours. They include every value of the paper's Tables 6 to 8 and are the same for every method. A
method has the ranges of the settings that it uses. As in those tables, a method's networks share one weight decay.

A file of ranges has a table for each preset, or one called `all`:

    [digits_uda_small]
    "stages.0.method.optimizer.learning_rate" = {type = "log", low = 0.01, high = 1.0}
    "stages.0.method.consistency.temperature" = {type = "range", low = 0.5, high = 1.5, step = 0.25}
    "stages.0.labeled_batch" = {type = "choice", values = [32, 64]}
"""

import dataclasses
import json
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metapl.algorithms.supervised import Supervised
from metapl.algorithms.uda import Consistency
from metapl.config import KINDS, Config
from metapl.optim import Optimizer
from metapl.schema import ConfigError, from_dict, validate
from metapl.types import MethodConfig

if TYPE_CHECKING:
    import optuna

# type -> the keys that it needs, the keys that it may have
_KEYS = {
    "float": (("low", "high"), ()),
    "log": (("low", "high"), ()),
    "int": (("low", "high"), ("step",)),
    "range": (("low", "high", "step"), ()),
    "choice": (("values",), ()),
}


@dataclass(frozen=True)
class Parameter:
    """One setting's range: `float` uniform, `log` uniform in the logarithm, `int` whole numbers, `range` in steps,
    `choice` any of the values."""

    type: str
    low: float = 0.0
    high: float = 0.0
    step: float = 1
    values: tuple[Any, ...] = ()
    also: tuple[str, ...] = ()
    """Names of settings that get the same value."""

    def suggest(self, trial: "optuna.Trial", name: str) -> Any:
        """Draw a value for a trial."""
        match self.type:
            case "int":
                return trial.suggest_int(name, int(self.low), int(self.high), step=int(self.step))
            case "range":
                return trial.suggest_float(name, self.low, self.high, step=self.step)
            case "choice":  # as text: a choice may be a list, such as the sizes of layers
                return json.loads(trial.suggest_categorical(name, [json.dumps(value) for value in self.values]))
            case _:
                return trial.suggest_float(name, self.low, self.high, log=self.type == "log")

    @property
    def edges(self) -> tuple[Any, ...]:
        """The values at the ends; if the settings accept these, they accept all between them."""
        if self.type == "choice":
            return self.values
        return (int(self.low), int(self.high)) if self.type == "int" else (self.low, self.high)


Space = Mapping[str, Parameter]

# The paper has 0.05 to 1.28 for SGD with momentum; the other two rules step differently.
_RATES = {
    "sgd": Parameter("log", 0.01, 2.0),
    "rmsprop": Parameter("log", 0.001, 0.2),
    "lars": Parameter("log", 0.1, 20.0),
    "adamw": Parameter("log", 1e-5, 1e-2),
}
_WEIGHT_DECAY = Parameter("log", 1e-5, 1e-2)  # the paper: 2e-4 to 1e-3
_SMOOTHING = Parameter("float", 0.0, 0.2)  # 0 and 0.1
_DROPOUT = Parameter("float", 0.0, 0.7)  # 0.1 to 0.65
_UNLABELED_WEIGHT = Parameter("log", 0.5, 32.0)  # the UDA factor, 1 to 20
_TEMPERATURE = Parameter("float", 0.4, 1.5)  # 0.7 to 1.25
_THRESHOLD = Parameter("float", 0.5, 0.99)  # 0.7 to 0.975
_MIXUP = Parameter("float", 0.1, 1.0)  # the paper does not say


def default(config: Config) -> dict[str, Parameter]:
    """The default ranges for a run's methods; finetuning keeps the paper's fixed learning rate."""
    space = {"model.dropout": _DROPOUT} if getattr(config.model, "dropout", 0.0) else {}
    for index, stage in enumerate(config.stages):
        finetuning = index > 0 and isinstance(stage.method, Supervised)
        if not finetuning:
            prefix = f"stages.{index}.method."
            for name, parameter in _of_method(stage.method):
                also = tuple(prefix + other for other in parameter.also)
                space[prefix + name] = dataclasses.replace(parameter, also=also)
    return space


def _of_method(method: MethodConfig) -> Iterator[tuple[str, Parameter]]:
    settings = {field.name: getattr(method, field.name) for field in dataclasses.fields(method)}
    optimizers = {name: value for name, value in settings.items() if isinstance(value, Optimizer)}
    for name, optimizer in optimizers.items():
        yield f"{name}.learning_rate", _RATES[optimizer.rule]
    first, *others = (f"{name}.weight_decay" for name in optimizers)
    yield first, dataclasses.replace(_WEIGHT_DECAY, also=tuple(others))
    if "label_smoothing" in settings:
        yield "label_smoothing", _SMOOTHING
    term = settings.get("consistency")
    if isinstance(term, Consistency) and term.weight:
        yield "consistency.weight", _UNLABELED_WEIGHT
        if term.labels == "soft":
            yield "consistency.temperature", _TEMPERATURE
        if term.threshold:
            yield "consistency.threshold", _THRESHOLD
    used = {
        "weight": _UNLABELED_WEIGHT,
        "unlabeled_weight": _UNLABELED_WEIGHT,
        "threshold": _THRESHOLD,
        "mixup": _MIXUP,
        "teacher_dropout": _DROPOUT,
        "student_dropout": _DROPOUT,
    }
    yield from ((name, parameter) for name, parameter in used.items() if settings.get(name))


def apply(config: Config, values: Mapping[str, Any], space: Space) -> Config:
    """Put values into the settings; an invalid name or value gives the same error as in a settings file."""
    tree: dict[str, Any] = {}
    for name, value in values.items():
        for path in (name, *space[name].also):
            _put(tree, path, value)
    changed = from_dict(Config, tree, KINDS, config)
    validate(changed)
    return changed


def _put(tree: dict[str, Any], path: str, value: Any) -> None:
    *parents, last = path.split(".")
    for key in parents:
        tree = tree.setdefault(key, {})
        if not isinstance(tree, dict):
            raise ConfigError(f"{path} is inside another setting of the space")
    tree[last] = value


def check(config: Config, space: Space) -> None:
    """Refuse a space with names or values that the settings do not accept, before any trial begins."""
    for name, parameter in space.items():
        for value in parameter.edges:
            apply(config, {name: value}, {name: parameter})


def read(file: Path, presets: Sequence[str]) -> dict[str, dict[str, Parameter]]:
    """Read the spaces of a TOML file, by preset; the table `all` is for every preset."""
    try:
        tables = tomllib.loads(file.read_text("utf-8-sig"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"--space {file} cannot be read: {error}") from None
    try:
        for name in tables:
            if name not in (*presets, "all"):
                raise ConfigError(f"{name!r} is not a preset of this sweep; name the tables {_listed(presets)}")
        spaces = {name: dict(_leaves(table, "")) for name, table in tables.items()}
    except ConfigError as error:
        raise ConfigError(f"--space {file}: {error}") from None
    common = spaces.pop("all", None)
    by_preset = {name: (common or {}) | spaces.get(name, {}) for name in presets if common or name in spaces}
    if not all(by_preset.values()) or not by_preset:
        raise ConfigError(f"--space {file} has no ranges")
    return by_preset


def _listed(presets: Sequence[str]) -> str:
    return ", ".join(["all", *presets])


def _leaves(table: Any, path: str) -> Iterator[tuple[str, Parameter]]:
    """Ranges by dotted names; the file may write a name as one quoted key or as nested tables."""
    if not isinstance(table, Mapping):
        raise ConfigError(f"{path or 'it'} takes a table with a type, got {table!r}")
    if isinstance(table.get("type"), str):
        yield path, _parameter(table, path)
        return
    for key, inner in table.items():
        yield from _leaves(inner, f"{path}.{key}" if path else key)


def _parameter(table: Mapping[str, Any], path: str) -> Parameter:
    kind = table["type"]
    if kind not in _KEYS:
        raise ConfigError(f"{path}: type takes one of {', '.join(_KEYS)}, got {kind!r}")
    needed, possible = _KEYS[kind]
    lacking = [key for key in needed if key not in table]
    unknown = [key for key in table if key not in ("type", "also", *needed, *possible)]
    if lacking or unknown:
        raise ConfigError(f"{path}: {kind} takes {', '.join(needed + possible)}, got {', '.join(table)}")
    also = table.get("also", [])
    if not isinstance(also, list) or not all(isinstance(name, str) for name in also):
        raise ConfigError(f"{path}: also takes a list of names, got {also!r}")
    if kind == "choice":
        if not isinstance(table["values"], list) or not table["values"]:
            raise ConfigError(f"{path}: values takes a list of at least one, got {table['values']!r}")
        return Parameter(kind, values=tuple(table["values"]), also=tuple(also))
    parameter = Parameter(kind, table["low"], table["high"], table.get("step", 1), also=tuple(also))
    _check_numbers(parameter, path)
    return parameter


def _check_numbers(parameter: Parameter, path: str) -> None:
    wanted = int if parameter.type == "int" else (int, float)
    numbers = (parameter.low, parameter.high, parameter.step)
    if not all(isinstance(number, wanted) and not isinstance(number, bool) for number in numbers):
        what = "whole numbers" if parameter.type == "int" else "numbers"
        raise ConfigError(f"{path}: low, high and step take {what}, got {', '.join(map(repr, numbers))}")
    if not -math.inf < parameter.low < parameter.high < math.inf or not parameter.step > 0:
        raise ConfigError(f"{path}: low must be below high, step above 0, and all of them finite")
    if parameter.type == "log" and not parameter.low > 0:
        raise ConfigError(f"{path}: log needs a low above 0, got {parameter.low}")
