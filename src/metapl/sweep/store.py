"""Trials in a database: who does which, so that every method ends with exactly as many as were asked for.

A method has slots 0 … N − 1. A trial is made for a slot and waits; a worker takes it by turning it from waiting into
running, which the database lets one worker do. A slot belongs to its first trial that has not failed. A trial whose
worker died is marked as failed, and then its slot gets another one: no slot can be completed twice or be forgotten,
however many workers on however many machines come and go.
"""

import socket
import threading
import uuid
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import optuna
import sqlalchemy
from optuna.storages import RDBStorage
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from metapl.schema import ConfigError
from metapl.sweep.plan import Budget, Method, identity
from metapl.system.lock import held, is_held

HEARTBEAT_S, GRACE_S = 20, 120  # a worker on another machine that is silent for longer than this is taken for dead
SQLITE_TIMEOUT_S = 120  # how long a worker waits for another one's write

_LIVE = (TrialState.WAITING, TrialState.RUNNING, TrialState.COMPLETE, TrialState.PRUNED)
DONE = (TrialState.COMPLETE, TrialState.PRUNED)

optuna.logging.set_verbosity(optuna.logging.ERROR)


class Row(NamedTuple):
    """One method in the database."""

    method: Method
    study: Study
    storage: RDBStorage
    trials: int  # how many it is to have


def connect(url: str) -> RDBStorage:
    """Open SQLite or PostgreSQL; a database that cannot be had is a sentence without the password."""
    try:
        shown = sqlalchemy.make_url(url).render_as_string(hide_password=True)
        if url.startswith(("postgresql://", "postgres://")):  # psycopg 3, which the extra brings
            url = "postgresql+psycopg://" + url.split("://", 1)[1]
        kwargs = (
            {"connect_args": {"timeout": SQLITE_TIMEOUT_S}} if url.startswith("sqlite") else {"pool_pre_ping": True}
        )
        with no_experimental_warnings():
            storage = RDBStorage(url, engine_kwargs=kwargs, heartbeat_interval=HEARTBEAT_S, grace_period=GRACE_S)
        if storage.engine.name == "sqlite":
            _one_at_a_time(storage.engine)
        return storage
    except sqlalchemy.exc.ArgumentError:
        raise ConfigError("--storage takes sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME") from None
    except ImportError:
        raise ConfigError(f"--storage {shown} needs a driver: pip install 'metapl[postgres]'") from None
    except (sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.OptunaError, OSError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"--storage {shown} cannot be used: {reason}") from None


def _one_at_a_time(engine: sqlalchemy.Engine) -> None:
    """Make SQLite lock when a transaction begins.

    Python's driver begins one at the first write, after what the write depends on was read: two workers that both read
    "waiting" would both take the trial. Other databases lock the row that is read.
    """
    sqlalchemy.event.listen(engine, "connect", lambda connection, _: setattr(connection, "isolation_level", None))
    sqlalchemy.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    engine.dispose()  # connections that were made before


def row(storage: RDBStorage, sweep: str, method: Method, budget: Budget) -> Row:
    """Make or find a method's trials; those of another sweep under the same name are not mixed with."""
    pruner = optuna.pruners.MedianPruner() if budget.prune else optuna.pruners.NopPruner()
    study = optuna.create_study(
        storage=storage, study_name=f"{sweep}/{method.name}", direction="maximize", load_if_exists=True, pruner=pruner
    )
    mine, theirs = identity(method, budget), study.user_attrs.get("plan")
    if theirs is None:
        study.set_user_attr("plan", mine)
    elif changed := [key for key in mine if mine[key] != theirs.get(key)]:
        raise ConfigError(
            f"{method.name}: this sweep began with another {' and '.join(changed)}; trials that differ in that are not "
            "comparable: take another --out (and thus another sweep), or the values of before"
        )
    return Row(method, study, storage, budget.trials)


def owners(row: Row) -> dict[int, FrozenTrial]:
    """Each slot's trial."""
    found: dict[int, FrozenTrial] = {}
    for trial in row.study.get_trials(deepcopy=False, states=_LIVE):
        found.setdefault(trial.user_attrs["slot"], trial)  # they come in the order of their numbers
    return {slot: trial for slot, trial in sorted(found.items()) if slot < row.trials}


def fill(row: Row) -> None:
    """Make a waiting trial for each slot that has none; if another worker does so, too, one of the two is not taken."""
    taken = owners(row)
    for slot in range(row.trials):
        if slot not in taken:
            trial = optuna.trial.create_trial(state=TrialState.WAITING, user_attrs={"slot": slot})
            row.storage.create_new_trial(row.study._study_id, template_trial=trial)


def take(rows: Sequence[Row]) -> tuple[Row, FrozenTrial] | None:
    """Take the first waiting trial, of the method that is behind: methods go side by side. None if none waits."""
    owned = [(slot, place, trial) for place, row in enumerate(rows) for slot, trial in owners(row).items()]
    for _, place, trial in sorted(owned, key=lambda one: one[:2]):
        if trial.state == TrialState.WAITING and _begin(rows[place], trial):
            return rows[place], trial
    return None


def _begin(row: Row, trial: FrozenTrial) -> bool:
    """Turn a trial from waiting into running; False if another worker did."""
    try:
        return row.storage.set_trial_state_values(trial._trial_id, TrialState.RUNNING)
    except optuna.exceptions.UpdateFinishedTrialError:
        return False


def fail(row: Row, trial: FrozenTrial, reason: str) -> None:
    """Give a trial up; its slot is free again."""
    try:
        row.storage.set_trial_user_attr(trial._trial_id, "failure", reason)
        row.storage.set_trial_state_values(trial._trial_id, TrialState.FAIL)
    except (optuna.exceptions.UpdateFinishedTrialError, RuntimeError):
        return  # someone else has


def reap(row: Row) -> None:
    """Give up the trials of workers that are no more: at once on this machine, after a silence on others."""
    for trial in row.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        worker = trial.user_attrs.get("worker")
        if worker and worker["host"] == host() and not is_held(Path(worker["lock"])):
            fail(row, trial, "its worker was killed")
    with no_experimental_warnings():
        optuna.storages.fail_stale_trials(row.study)


def host() -> str:
    """This machine, until its next start."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("utf-8").strip()
    except OSError:
        boot = ""
    return f"{socket.gethostname()} {boot}".strip()


@contextmanager
def presence(folder: Path) -> Iterator[Path]:
    """A locked file for as long as this worker lives: the system lets go of it, however the worker ends."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{uuid.uuid4().hex}.lock"
    with held(path):
        yield path.absolute()


@contextmanager
def heartbeat(row: Row, trial: FrozenTrial, lock: Path) -> Iterator[None]:
    """Say whose the trial is, and every while that it is still being worked on."""
    row.storage.set_trial_user_attr(trial._trial_id, "worker", {"host": host(), "lock": str(lock)})
    stop = threading.Event()

    def beat() -> None:
        while True:
            row.storage.record_heartbeat(trial._trial_id)
            if stop.wait(HEARTBEAT_S):
                return

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def no_experimental_warnings() -> Iterator[None]:
    """Heartbeats are experimental in optuna for years; our caps on its version are the answer to that."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        yield
