"""Trials in a database: which worker does which, so that every method ends with exactly the wanted number of trials.

A method has slots 0 … N − 1. A trial is created for a slot and waits. A worker takes it by changing its state from
waiting to running, which the database allows one worker only. A slot belongs to its first trial that has not failed. A
trial whose worker died is marked as failed, and then its slot gets a new one. So no slot is completed twice or
forgotten, with any number of workers and machines.
"""

import socket
import threading
import time
import uuid
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import optuna
import sqlalchemy
from optuna.storages import RDBStorage
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from metapl.schema import ConfigError
from metapl.sweep.settings import Budget, Method, identity
from metapl.system.lock import held, is_held

HEARTBEAT_S, GRACE_S = 20, 120  # a worker on another machine counts as dead if it is silent for longer than GRACE_S
TRIES, WAIT_S = 10, 0.3  # to create the tables while other workers do
SQLITE_TIMEOUT_S = 120  # how long a worker waits for another worker's write

_LIVE = (TrialState.WAITING, TrialState.RUNNING, TrialState.COMPLETE, TrialState.PRUNED)
DONE = (TrialState.COMPLETE, TrialState.PRUNED)

optuna.logging.set_verbosity(optuna.logging.ERROR)


class MethodStudy(NamedTuple):
    """One method's trials in the database."""

    method: Method
    optuna: Study
    storage: RDBStorage
    trials: int  # how many are wanted


def connect(url: str) -> RDBStorage:
    """Open SQLite or PostgreSQL; if that fails, the error does not show the password."""
    try:
        shown = sqlalchemy.make_url(url).render_as_string(hide_password=True)
        if url.startswith(("postgresql://", "postgres://")):  # psycopg 3, which metapl[postgres] installs
            url = "postgresql+psycopg://" + url.split("://", 1)[1]
        kwargs = (
            {"connect_args": {"timeout": SQLITE_TIMEOUT_S}} if url.startswith("sqlite") else {"pool_pre_ping": True}
        )
        storage = _open(url, kwargs)
        if storage.engine.name == "sqlite":
            _lock_at_begin(storage.engine)
        return storage
    except sqlalchemy.exc.ArgumentError:
        raise ConfigError("--storage takes sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME") from None
    except ImportError:
        raise ConfigError(f"--storage {shown} needs a driver: pip install 'metapl[postgres]'") from None
    except (sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.OptunaError, OSError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"--storage {shown} cannot be used: {reason}") from None


def _open(url: str, kwargs: dict[str, Any]) -> RDBStorage:
    """Open the trials; optuna creates its tables if there are none.

    If several workers start at the same moment on an empty database, all but one of them fail at this, once.
    """
    for tries_left in reversed(range(TRIES)):
        try:
            with no_experimental_warnings():
                return RDBStorage(url, engine_kwargs=kwargs, heartbeat_interval=HEARTBEAT_S, grace_period=GRACE_S)
        except (sqlalchemy.exc.IntegrityError, sqlalchemy.exc.ProgrammingError):
            if not tries_left:
                raise
            time.sleep(WAIT_S)
    raise AssertionError("TRIES is at least 1")


def _lock_at_begin(engine: sqlalchemy.Engine) -> None:
    """Make SQLite lock when a transaction begins.

    Python's driver begins one at the first write only. By then the worker has already read what the write depends on:
    two workers that both read "waiting" would both take the trial. Other databases lock the row that is read.
    """
    sqlalchemy.event.listen(engine, "connect", lambda connection, _: setattr(connection, "isolation_level", None))
    sqlalchemy.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    engine.dispose()  # connections that were made before


def open_study(storage: RDBStorage, sweep: str, method: Method, budget: Budget) -> MethodStudy:
    """Create or find a method's trials; refuse to mix them with trials of a different sweep of the same name."""
    pruner = optuna.pruners.MedianPruner() if budget.prune else optuna.pruners.NopPruner()
    trials = optuna.create_study(
        storage=storage, study_name=f"{sweep}/{method.name}", direction="maximize", load_if_exists=True, pruner=pruner
    )
    mine, theirs = identity(method, budget), trials.user_attrs.get("plan")
    if theirs is None:
        trials.set_user_attr("plan", mine)
    elif changed := [key for key in mine if mine[key] != theirs.get(key)]:
        raise ConfigError(
            f"{method.name}: this sweep started with another {' and '.join(changed)}, and its trials would not be "
            "comparable; give another --out for a new sweep, or the values from before"
        )
    return MethodStudy(method, trials, storage, budget.trials)


def owners(study: MethodStudy) -> dict[int, FrozenTrial]:
    """The trial of each slot."""
    by_slot: dict[int, FrozenTrial] = {}
    for trial in study.optuna.get_trials(deepcopy=False, states=_LIVE):
        by_slot.setdefault(trial.user_attrs["slot"], trial)  # they come in the order of their numbers
    return {slot: trial for slot, trial in sorted(by_slot.items()) if slot < study.trials}


def refresh(studies: Sequence[MethodStudy]) -> None:
    """Give up the trials of dead workers, and make a waiting trial for each slot that has none."""
    for study in studies:
        reap(study)
        fill(study)


def fill(study: MethodStudy) -> None:
    """Make a waiting trial for each slot that has none; if two workers do so at once, one of the two is never taken."""
    taken = owners(study)
    for slot in range(study.trials):
        if slot not in taken:
            trial = optuna.trial.create_trial(state=TrialState.WAITING, user_attrs={"slot": slot})
            study.storage.create_new_trial(study.optuna._study_id, template_trial=trial)


def take(studies: Sequence[MethodStudy]) -> tuple[MethodStudy, FrozenTrial] | None:
    """Take the waiting trial with the lowest slot, so that all methods advance together; None if none waits."""
    owned = [(slot, place, trial) for place, study in enumerate(studies) for slot, trial in owners(study).items()]
    for _, place, trial in sorted(owned, key=lambda entry: entry[:2]):
        if trial.state == TrialState.WAITING and _begin(studies[place], trial):
            return studies[place], trial
    return None


def _begin(study: MethodStudy, trial: FrozenTrial) -> bool:
    """Change a trial's state from waiting to running; False if another worker did."""
    try:
        return study.storage.set_trial_state_values(trial._trial_id, TrialState.RUNNING)
    except optuna.exceptions.UpdateFinishedTrialError:
        return False


def fail(study: MethodStudy, trial: FrozenTrial, reason: str) -> None:
    """Give a trial up, so that its slot is free again."""
    try:
        study.storage.set_trial_user_attr(trial._trial_id, "failure", reason)
        study.storage.set_trial_state_values(trial._trial_id, TrialState.FAIL)
    except (optuna.exceptions.UpdateFinishedTrialError, RuntimeError):
        return  # another worker has given it up


def reap(study: MethodStudy) -> None:
    """Give up the trials of dead workers: at once if they ran on this machine, after GRACE_S on others."""
    for trial in study.optuna.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        worker = trial.user_attrs.get("worker")
        if worker and worker["host"] == host() and not is_held(Path(worker["lock"])):
            fail(study, trial, "its worker was killed")
    with no_experimental_warnings():
        optuna.storages.fail_stale_trials(study.optuna)


def host() -> str:
    """A name for this machine since it was booted."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("utf-8").strip()
    except OSError:
        boot = ""
    return f"{socket.gethostname()} {boot}".strip()


@contextmanager
def presence(folder: Path) -> Iterator[Path]:
    """A locked file for as long as this worker lives: the system unlocks it, however the worker ends."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{uuid.uuid4().hex}.lock"
    with held(path):
        yield path.absolute()


@contextmanager
def heartbeat(study: MethodStudy, trial: FrozenTrial, lock: Path) -> Iterator[None]:
    """Write down which worker has the trial, and every HEARTBEAT_S that it is still at work."""
    study.storage.set_trial_user_attr(trial._trial_id, "worker", {"host": host(), "lock": str(lock)})
    stop = threading.Event()

    def beat() -> None:
        while True:
            study.storage.record_heartbeat(trial._trial_id)
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
    """Hide optuna's warning that heartbeats are experimental; pyproject.toml limits its versions for that reason."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        yield
