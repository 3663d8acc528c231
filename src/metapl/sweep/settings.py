"""What a sweep is: methods with their spaces, and the one budget that all of them have."""

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
    """What is the same for every method."""

    trials: Annotated[int, Ge(1)] = 128
    """Trials that each method gets (the paper: 128); a larger number later adds to those that are there."""
    max_steps: Annotated[int, Ge(1)] = 50_000
    """Each stage of a trial trains for at most so many steps (the paper: 50,000)."""
    validate_on: Annotated[int, Ge(0)] = 0
    """Hold out so many unlabelled examples with known labels to validate on; 0: the data's own validation part."""
    sampler: Literal["tpe", "random"] = "tpe"
    """tpe learns from the trials so far; random does not, and tries the same settings with any number of workers."""
    prune: bool = False
    """End trials that are worse than the median half-way. Off: a slow start is no reason to lose (fairness)."""
    seed: Annotated[int, Ge(0), Lt(2**32)] = 0
    """Draws the settings and the held-out examples; a trial trains with its preset's own seed."""


class Method(NamedTuple):
    """One row of the final table."""

    name: str
    config: Config  # with all its steps
    space: Space


class Plan(NamedTuple):
    """All that a worker needs to know."""

    methods: tuple[Method, ...]
    budget: Budget
    folders: Folders


def make(words: Sequence[str], budget: Budget, space_file: Path | None, folders: Folders) -> Plan:
    """Read presets or files, give each its space, and refuse what cannot be before the first trial."""
    loaded = {Path(word).stem: configs.load(word) for word in words}
    if len(loaded) < len(words):
        raise ConfigError("two of the presets or files have the same name; a sweep tells its methods apart by it")
    own = spaces.read(space_file, list(loaded)) if space_file else {}
    methods = tuple(Method(name, config, own.get(name) or spaces.default(config)) for name, config in loaded.items())
    for method in methods:
        try:
            spaces.check(method.config, method.space)
            _check_trial(capped(method.config, budget.max_steps))
        except ConfigError as error:
            raise ConfigError(f"{method.name}: {error}") from None
    return Plan(methods, budget, folders)


def _check_trial(config: Config) -> None:
    """Refuse what no trial could begin with: a warm-up or a wait that is longer than the capped stage."""
    validate(config)
    for stage, model in zip(config.stages, config.stage_models, strict=True):
        algorithms.build(stage.method, models.build(model, 2), stage.steps)


def capped(config: Config, max_steps: int) -> Config:
    """The settings of a trial: no stage is longer than that, and nothing but the end is evaluated."""
    stages = tuple(dataclasses.replace(stage, steps=min(stage.steps, max_steps)) for stage in config.stages)
    return dataclasses.replace(config, stages=stages, eval_every_steps=0)


def identity(method: Method, budget: Budget) -> dict[str, Any]:
    """What must be the same for trials to be comparable: all but the number of trials."""
    ranges = {name: dataclasses.asdict(parameter) for name, parameter in method.space.items()}
    rest = {name: value for name, value in dataclasses.asdict(budget).items() if name != "trials"}
    found: dict[str, Any] = {"settings": configs.dump(method.config), "space": ranges} | rest
    return dict(json.loads(json.dumps(found)))  # as a database gives it back: without tuples


def load(config: Config, plan: Plan) -> Dataset:
    """The data of a trial. Its "test" part is the validation part: the true one is not there to be looked at."""
    dataset = data.load(config.data, [config.seed], plan.folders)[0]
    count = plan.budget.validate_on
    if dataset.val is None and not count:
        raise ConfigError(
            "the data have no validation part, and a sweep never looks at test data; hold some out with "
            f"--validate-on N (no more than the {len(dataset.labels):,} labelled examples is realistic), or give the "
            "source a val part (docs/data.md)"
        )
    if dataset.val is not None and count:
        raise ConfigError("the data have a validation part of their own; leave --validate-on out")
    if count:
        dataset = hold_out(dataset, count, plan.budget.seed)
    assert dataset.val is not None
    assert dataset.val_labels is not None
    return dataset._replace(test=dataset.val, test_labels=dataset.val_labels, test_real=None, val=None, val_labels=None)


def validation_size(plan: Plan) -> int:
    """How many examples judge the trials; methods with different data are not compared."""
    if len({method.config.data for method in plan.methods}) > 1:
        raise ConfigError("the methods have different data, so their accuracies cannot be compared; sweep each alone")
    return len(load(plan.methods[0].config, plan).test)
