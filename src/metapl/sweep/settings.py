"""The settings of a sweep: methods with their search spaces, and one budget for all of them."""

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from annotated_types import Ge, Lt

from metapl import algorithms, data, models
from metapl import config as configs
from metapl.config import Config
from metapl.data.reading.files import Folders
from metapl.data.sources.dataset import Dataset
from metapl.data.splits.hold_out import hold_out
from metapl.schema import ConfigError, validate
from metapl.sweep import space as spaces
from metapl.sweep.space import Space


@dataclass(frozen=True)
class Budget:
    """What every method gets, the same for all."""

    trials: Annotated[int, Ge(1)] = 128
    """Trials for each method (the paper: 128). Run again with a larger number to add trials."""
    max_steps: Annotated[int, Ge(1)] = 50_000
    """Largest number of steps for each stage of a trial (the paper: 50,000)."""
    validate_on: Annotated[int, Ge(0)] = 0
    """Validate on this many held-out unlabelled examples whose labels are known; 0: the data's own validation part."""
    sampler: Literal["tpe", "random"] = "tpe"
    """tpe learns from earlier trials; random does not, and tries the same settings with any number of workers."""
    prune: bool = False
    """Stop a trial whose accuracy is below the median of the trials before it at the same step. Off by default, to be
    fair to methods that start slowly."""
    seed: Annotated[int, Ge(0), Lt(2**32)] = 0
    """Seed for the settings and the held-out examples; a trial trains with the seed of its preset."""


class Method(NamedTuple):
    """One method of the sweep: a row of the final table."""

    name: str
    config: Config  # with the preset's number of steps
    space: Space


class SweepSettings(NamedTuple):
    """All that a worker needs."""

    methods: tuple[Method, ...]
    budget: Budget
    folders: Folders


def read_settings(words: Sequence[str], budget: Budget, space_file: Path | None, folders: Folders) -> SweepSettings:
    """Read presets or settings files and give each its search space; refuse invalid ones before the first trial."""
    loaded = {Path(word).stem: configs.load(word) for word in words}
    if len(loaded) < len(words):
        raise ConfigError("two of the presets or files have the same name, and a sweep needs different names")
    given = spaces.read(space_file, list(loaded)) if space_file else {}
    methods = tuple(Method(name, config, given.get(name) or spaces.default(config)) for name, config in loaded.items())
    for method in methods:
        try:
            spaces.check(method.config, method.space)
            _check_trial(capped(method.config, budget.max_steps))
        except ConfigError as error:
            raise ConfigError(f"{method.name}: {error}") from None
    return SweepSettings(methods, budget, folders)


def _check_trial(config: Config) -> None:
    """Refuse settings with which no trial could start: a warm-up or a wait that is longer than the capped stage."""
    validate(config)
    for stage, model in zip(config.stages, config.stage_models, strict=True):
        algorithms.build(stage.method, models.build(model, 2), stage.steps)


def capped(config: Config, max_steps: int) -> Config:
    """The settings of a trial: no stage is longer than `max_steps`, and only the final weights are evaluated."""
    stages = tuple(dataclasses.replace(stage, steps=min(stage.steps, max_steps)) for stage in config.stages)
    return dataclasses.replace(config, stages=stages, eval_every_steps=0)


def identity(method: Method, budget: Budget) -> dict[str, Any]:
    """What must be equal for trials to be comparable: everything but the number of trials."""
    ranges = {name: dataclasses.asdict(parameter) for name, parameter in method.space.items()}
    rest = {name: value for name, value in dataclasses.asdict(budget).items() if name != "trials"}
    values: dict[str, Any] = {"settings": configs.dump(method.config), "space": ranges} | rest
    return dict(json.loads(json.dumps(values)))  # as a database returns it: without tuples


def load(config: Config, settings: SweepSettings) -> Dataset:
    """The data of a trial. Its "test" examples are the validation examples, so that no trial can see the real ones."""
    dataset = data.load(config.data, [config.seed], settings.folders)[0]
    count = settings.budget.validate_on
    if dataset.val is None and not count:
        raise ConfigError(
            "the data have no validation part, and a sweep never reads test data; hold out examples with "
            f"--validate-on N (realistic: no more than the {len(dataset.labels):,} labelled examples), or give the "
            "source a val part (docs/data.md)"
        )
    if dataset.val is not None and count:
        raise ConfigError("the data have a validation part of their own; leave --validate-on out")
    if count:
        dataset = hold_out(dataset, count, settings.budget.seed)
    assert dataset.val is not None
    assert dataset.val_labels is not None
    return dataset._replace(test=dataset.val, test_labels=dataset.val_labels, test_real=None, val=None, val_labels=None)


def validation_size(settings: SweepSettings) -> int:
    """How many validation examples there are; refuse methods with different data, which cannot be compared."""
    if len({method.config.data for method in settings.methods}) > 1:
        raise ConfigError("the methods have different data, so their accuracies cannot be compared; sweep each alone")
    return len(load(settings.methods[0].config, settings).test)
