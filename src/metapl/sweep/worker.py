"""A worker: takes trials and trains them, until there are none to take.

Data are loaded once for each worker. Settings such as learning rates are constants of a compiled program, so that every
trial compiles its own.
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
from metapl.sweep import plan as plans
from metapl.sweep import space as spaces
from metapl.sweep import store
from metapl.sweep.plan import Budget, Plan
from metapl.sweep.store import Row
from metapl.system import runtime
from metapl.train.loop import Trained, train
from metapl.types import Metrics

WORST = 0.0  # the accuracy of a trial that diverges
KEPT_TRIALS = 16  # programs of so many trials stay in memory; none is used again, but what all share is
REPORTS = 10  # looks at a trial on its way, where it may be pruned

Data = dict[tuple[SourceConfig, int], Dataset]


class Job(NamedTuple):
    """What a worker's process is started with."""

    plan: Plan
    sweep: str
    url: str
    out: Path


def main(job: Job) -> None:
    """Be a worker in a process of its own."""
    runtime.start(keep_programs=False)
    try:
        storage = store.connect(job.url)
        rows = [store.row(storage, job.sweep, method, job.plan.budget) for method in job.plan.methods]
        work(rows, job.plan, job.out, lambda: None)
    except KeyboardInterrupt:
        sys.exit(130)
    except ConfigError as error:
        sys.exit(f"metapl: a worker ended: {error}")


def work(rows: list[Row], plan: Plan, out: Path, after_each: Callable[[], None]) -> None:
    """Do trials until none waits; a worker whose parent is gone stops after the trial it is at."""
    parent, data = parent_process(), Data()
    with store.presence(out / "workers") as lock:
        while parent is None or parent.is_alive():
            for row in rows:
                store.reap(row)
                store.fill(row)
            taken = store.take(rows)
            if taken is None:
                return
            row, trial = taken
            with store.heartbeat(row, trial, lock):
                do(row, trial, plan, data)
            after_each()


def do(row: Row, frozen: FrozenTrial, plan: Plan, data: Data) -> None:
    """Train one trial. One that diverges counts, as the worst; one that is interrupted does not."""
    study, start = row.study, time.monotonic()
    study.sampler = sampler(plan.budget, row.method.name, frozen.user_attrs["slot"])
    trial = optuna.Trial(study, frozen._trial_id)
    accuracy: float | None = WORST
    state = TrialState.COMPLETE
    try:
        values = {name: parameter.suggest(trial, name) for name, parameter in row.method.space.items()}
        try:
            config = plans.capped(spaces.apply(row.method.config, values, row.method.space), plan.budget.max_steps)
            accuracy = validation_accuracy(config, trial, plan, data)
        except ConfigError as error:
            trial.set_user_attr("failure", str(error))
        except optuna.TrialPruned:
            state, accuracy = TrialState.PRUNED, None  # the database knows what it reported last
        trial.set_user_attr("seconds", round(time.monotonic() - start, 2))
    except BaseException as error:
        store.fail(row, frozen, f"{type(error).__name__}: {error}")
        raise
    if frozen.number % KEPT_TRIALS == 0:
        jax.clear_caches()
    study.tell(trial, accuracy, state, skip_if_finished=True)  # finished: given up by others, who thought it dead


def sampler(budget: Budget, name: str, slot: int) -> BaseSampler:
    """Draw each trial from a seed of its own: what it tries does not depend on what its worker did before."""
    seed = int(np.random.SeedSequence([budget.seed, zlib.crc32(name.encode()), slot]).generate_state(1)[0])
    if budget.sampler == "random":
        return RandomSampler(seed)
    return TPESampler(seed=seed, constant_liar=True)


def validation_accuracy(config: Config, trial: optuna.Trial, plan: Plan, data: Data) -> float:
    """Train, and ask the final weights about the validation part."""
    key = (config.data, config.seed)
    if key not in data:
        data[key] = plans.load(config, plan)
    datasets = [data[key]]

    def examine(stage: int, step: int, trained: Trained) -> Metrics:
        if stage == len(config.stages) - 1:
            trial.report(accuracy_of(config, trained, datasets), step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return {}

    if plan.budget.prune:
        every = max(1, config.stages[-1].steps // REPORTS)
        config = dataclasses.replace(config, eval_every_steps=every)
    trained = train(config, [config.seed], datasets, refuse_divergence, examine=examine if plan.budget.prune else None)
    return accuracy_of(config, trained, datasets)


def refuse_divergence(stage: int, step: int, metrics: Metrics) -> None:
    """End a trial whose numbers are no numbers any more."""
    broken = [name for name, values in metrics.items() if not np.isfinite(np.asarray(values)).all()]
    if broken:
        raise ConfigError(f"diverged before step {step:,} of stage {stage}: {', '.join(broken)} not finite")


def accuracy_of(config: Config, trained: Trained, datasets: list[Dataset]) -> float:
    """Share of the validation examples that the network gets right."""
    found = held_out.examine(trained, config.augmentation, datasets)[0].test
    if not math.isfinite(found.nll):  # the last update may be the one that broke it
        raise ConfigError("diverged at the end: the network's answers are not finite")
    return found.accuracy
