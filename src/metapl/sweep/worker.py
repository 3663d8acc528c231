"""A worker takes trials and trains them until no trial waits.

Each worker loads its data once. Every trial compiles its own program, because settings such as learning rates are
constants of the program.
"""

import dataclasses
import math
import sys
import time
import zlib
from collections.abc import Callable
from multiprocessing import parent_process
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
import optuna
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState

from metapl.config import Config
from metapl.data.sources.dataset import Dataset, SourceConfig
from metapl.evaluate import held_out
from metapl.schema import ConfigError
from metapl.sweep import space as spaces
from metapl.sweep import store
from metapl.sweep.settings import Budget, SweepSettings, capped, load
from metapl.sweep.store import MethodStudy
from metapl.system import runtime
from metapl.train.loop import Hooks, Trained, train
from metapl.types import Metrics

WORST = 0.0  # the accuracy of a trial that diverges
KEPT_TRIALS = (
    16  # clear the compiled programs every 16 trials; a trial's own program is not used again, shared ones are
)
REPORTS = 10  # how often a trial reports its accuracy while it trains, if trials may be pruned

Data = dict[tuple[SourceConfig, int], Dataset]


class Job(NamedTuple):
    """What the process of a worker is started with."""

    settings: SweepSettings
    sweep: str  # its name, before the method's name in the database
    url: str
    out: Path


def main(job: Job) -> None:
    """Work in a process of its own."""
    runtime.start(keep_programs=False)
    try:
        storage = store.connect(job.url)
        studies = [store.open_study(storage, job.sweep, method, job.settings.budget) for method in job.settings.methods]
        work(studies, job.settings, job.out, lambda: None)
    except KeyboardInterrupt:
        sys.exit(130)
    except ConfigError as error:
        sys.exit(f"metapl: a worker ended: {error}")


def work(studies: list[MethodStudy], settings: SweepSettings, out: Path, after_each: Callable[[], None]) -> None:
    """Do trials until none waits; a worker whose parent process has ended stops after its current trial."""
    parent, data = parent_process(), Data()
    with store.presence(out / "workers") as lock:
        while parent is None or parent.is_alive():
            store.refresh(studies)
            taken = store.take(studies)
            if taken is None:
                return
            study, trial = taken
            with store.heartbeat(study, trial, lock):
                do_trial(study, trial, settings, data)
            after_each()


def do_trial(study: MethodStudy, frozen: FrozenTrial, settings: SweepSettings, data: Data) -> None:
    """Train one trial. A trial that diverges counts, with the worst accuracy; an interrupted one does not count."""
    start = time.monotonic()
    study.optuna.sampler = sampler(settings.budget, study.method.name, frozen.user_attrs["slot"])
    trial = optuna.Trial(study.optuna, frozen._trial_id)
    accuracy: float | None = WORST
    state = TrialState.COMPLETE
    try:
        values = {name: parameter.suggest(trial, name) for name, parameter in study.method.space.items()}
        try:
            config = spaces.apply(study.method.config, values, study.method.space)
            config = capped(config, settings.budget.max_steps)
            accuracy = validation_accuracy(config, trial, settings, data)
        except ConfigError as error:
            trial.set_user_attr("failure", str(error))
        except optuna.TrialPruned:
            state, accuracy = TrialState.PRUNED, None  # the database has the last accuracy that it reported
        trial.set_user_attr("seconds", round(time.monotonic() - start, 2))
    except BaseException as error:
        store.fail(study, frozen, f"{type(error).__name__}: {error}")
        raise
    if frozen.number % KEPT_TRIALS == 0:
        jax.clear_caches()
    # Finished already: another worker took this one for dead and gave the trial up.
    study.optuna.tell(trial, accuracy, state, skip_if_finished=True)


def sampler(budget: Budget, name: str, slot: int) -> BaseSampler:
    """A sampler with its own seed for each trial: what a trial tries does not depend on its worker's earlier trials."""
    seed = int(np.random.SeedSequence([budget.seed, zlib.crc32(name.encode()), slot]).generate_state(1)[0])
    if budget.sampler == "random":
        return RandomSampler(seed)
    return TPESampler(seed=seed, constant_liar=True)


def validation_accuracy(config: Config, trial: optuna.Trial, settings: SweepSettings, data: Data) -> float:
    """Train, then evaluate the final weights on the validation examples."""
    key = (config.data, config.seed)
    if key not in data:
        data[key] = load(config, settings)
    datasets = [data[key]]

    def examine(stage: int, step: int, trained: Trained) -> Metrics:
        if stage == len(config.stages) - 1:
            trial.report(accuracy_of(config, trained, datasets), step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return {}

    if settings.budget.prune:
        every = max(1, config.stages[-1].steps // REPORTS)
        config = dataclasses.replace(config, eval_every_steps=every)
    hooks = Hooks(refuse_divergence, examine=examine if settings.budget.prune else None)
    trained = train(config, [config.seed], datasets, hooks)
    return accuracy_of(config, trained, datasets)


def refuse_divergence(stage: int, step: int, metrics: Metrics) -> None:
    """End a trial whose metrics are not finite."""
    broken = [name for name, values in metrics.items() if not np.isfinite(np.asarray(values)).all()]
    if broken:
        raise ConfigError(f"diverged before step {step:,} of stage {stage}: {', '.join(broken)} not finite")


def accuracy_of(config: Config, trained: Trained, datasets: list[Dataset]) -> float:
    """Share of the validation examples that the network gets right."""
    scores = held_out.examine(trained, config.augmentation, datasets)[0].test
    if not math.isfinite(scores.nll):  # the last update may be the one that diverged
        raise ConfigError("diverged at the end: the network's predictions are not finite")
    return scores.accuracy
