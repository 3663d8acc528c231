"""Exactly the wanted number of trials, whichever workers work or die."""

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import optuna
import pytest
import sqlalchemy
from optuna.trial import TrialState

import metapl
from metapl import config as configs
from metapl.schema import ConfigError
from metapl.sweep import coordinator, store, worker
from metapl.sweep.settings import Budget, Method
from metapl.sweep.space import Parameter

METHOD = Method("uda", configs.load("digits_uda_small"), {"seed": Parameter("int", 0, 9)})


def open_study(folder: Path, trials: int = 4, **budget) -> store.MethodStudy:
    storage = store.connect(f"sqlite:///{folder}/sweep.db")
    return store.open_study(storage, "sweep", METHOD, Budget(trials=trials, **budget))


def complete(study: store.MethodStudy, trial: optuna.trial.FrozenTrial, value: float = 0.5) -> None:
    study.storage.set_trial_state_values(trial._trial_id, TrialState.COMPLETE, [value])


def take(study: store.MethodStudy) -> optuna.trial.FrozenTrial | None:
    taken = store.take([study])
    return taken[1] if taken else None


def states(study: store.MethodStudy) -> Counter[str]:
    return Counter(trial.state.name for trial in study.optuna.get_trials())


def test_slots_are_taken_in_order_and_once(tmp_path):
    mine, theirs = open_study(tmp_path), open_study(tmp_path)
    store.fill(mine)
    store.fill(theirs)  # all trials exist already
    taken = [take(one).user_attrs["slot"] for one in (mine, theirs, mine, theirs)]
    assert taken == [0, 1, 2, 3]
    assert take(mine) is None


def test_a_trial_that_was_given_up_is_replaced_in_its_slot(tmp_path):
    study = open_study(tmp_path)
    store.fill(study)
    first, second = take(study), take(study)
    store.fail(study, first, "killed")
    complete(study, second)
    store.fill(study)
    again = take(study)
    assert again.user_attrs["slot"] == 0
    assert again.number == 4
    store.fail(study, second, "too late")  # a complete trial stays complete
    assert states(study) == {"FAIL": 1, "COMPLETE": 1, "RUNNING": 1, "WAITING": 2}


def test_two_that_fill_the_same_slot_do_not_complete_it_twice(tmp_path):
    study = open_study(tmp_path, trials=1)
    for _ in range(2):  # as if both had read before either wrote
        trial = optuna.trial.create_trial(state=TrialState.WAITING, user_attrs={"slot": 0})
        study.storage.create_new_trial(study.optuna._study_id, trial)
    complete(study, take(study))
    assert take(study) is None


def test_a_larger_number_later_adds_trials_and_a_smaller_one_hides_some(tmp_path):
    study = open_study(tmp_path, trials=2)
    store.fill(study)
    complete(study, take(study))
    more = open_study(tmp_path, trials=5)
    store.fill(more)
    assert len(store.owners(more)) == 5
    assert len(store.owners(open_study(tmp_path, trials=1))) == 1


def test_many_threads_do_each_slot_once(tmp_path):
    rows = [open_study(tmp_path, trials=12) for _ in range(4)]
    done: list[int] = []

    def worker(own: store.MethodStudy) -> None:
        store.fill(own)
        while trial := take(own):
            done.append(trial.user_attrs["slot"])
            complete(own, trial)

    threads = [threading.Thread(target=worker, args=(own,)) for own in rows]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == list(range(12))


def test_methods_advance_together(tmp_path):
    storage = store.connect(f"sqlite:///{tmp_path}/sweep.db")
    rows = [store.open_study(storage, "s", METHOD._replace(name=name), Budget(trials=2)) for name in ("a", "b")]
    for one in rows:
        store.fill(one)
    order = [(study[0].method.name, study[1].user_attrs["slot"]) for _ in range(4) if (study := store.take(rows))]
    assert order == [("a", 0), ("b", 0), ("a", 1), ("b", 1)]
    assert store.take(rows) is None


CHILD = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_store import open_study, store, take
folder = Path(sys.argv[1])
study = open_study(folder)
store.fill(study)
with store.presence(folder / "workers") as lock:
    with store.heartbeat(study, take(study), lock):
        print("at work", flush=True)
        time.sleep(60)
"""


def test_a_killed_worker_is_noticed_at_once_and_a_living_one_is_left_alone(tmp_path):
    environment = os.environ | {"PYTHONPATH": str(Path(metapl.__file__).parents[1])}
    command = [sys.executable, "-c", CHILD, str(tmp_path), str(Path(__file__).parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "at work\n"
        study = open_study(tmp_path)
        store.reap(study)
        assert states(study)["RUNNING"] == 1
        child.send_signal(signal.SIGKILL)
        child.wait()
    store.reap(study)
    assert states(study) == {"FAIL": 1, "WAITING": 3}
    assert study.optuna.get_trials()[0].user_attrs["failure"] == "its worker was killed"


def test_a_trial_of_another_machine_is_not_given_up_while_it_sends_heartbeats(tmp_path, monkeypatch):
    study = open_study(tmp_path)
    store.fill(study)
    trial = take(study)
    monkeypatch.setattr(store, "host", lambda: "elsewhere")
    with store.heartbeat(study, trial, tmp_path / "gone.lock"):
        monkeypatch.undo()
        store.reap(study)
        assert states(study)["RUNNING"] == 1


def test_a_worker_that_died_before_it_wrote_its_name(tmp_path, monkeypatch):
    monkeypatch.setattr(coordinator, "ORPHAN_S", 0)
    monkeypatch.setattr(coordinator, "POLL_S", 0.01)
    study = open_study(tmp_path)
    store.fill(study)
    take(study)
    coordinator._give_up_orphans([study])
    assert states(study) == {"FAIL": 1, "WAITING": 4}


@pytest.mark.parametrize(
    ("method", "budget", "words"),
    [
        (METHOD, {"seed": 1}, "started with another seed,"),
        (METHOD._replace(space={"seed": Parameter("int", 0, 8)}), {}, "started with another space,"),
        (METHOD._replace(config=configs.load("digits_uda_small").__class__()), {"prune": True}, "settings and prune"),
    ],
)
def test_trials_of_a_different_sweep_are_refused(tmp_path, method, budget, words):
    open_study(tmp_path)
    open_study(tmp_path, trials=9)  # the number of trials may change
    storage = store.connect(f"sqlite:///{tmp_path}/sweep.db")
    with pytest.raises(ConfigError, match=words):
        store.open_study(storage, "sweep", method, Budget(trials=4, **budget))


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("nonsense", "--storage takes sqlite:///FILE or postgresql"),
        ("sqlite:////nowhere/at/all/sweep.db", "cannot be used"),
        ("oracle://me:secret@host/db", "needs a driver|cannot be used"),
        ("postgresql://me:secret@127.0.0.1:1/db", "needs a driver|cannot be used"),
    ],
)
def test_an_unusable_database_gives_an_error_without_the_password(url, words):
    with pytest.raises(ConfigError, match=words) as error:
        store.connect(url)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("kind", ["random", "tpe"])
def test_a_slots_settings_do_not_depend_on_the_worker(tmp_path, kind):
    def draw(slot: int) -> float:
        study = optuna.create_study(sampler=worker.sampler(Budget(sampler=kind), "uda", slot))
        return study.ask().suggest_float("x", 0, 1)

    assert draw(3) == draw(3) != draw(4)


def test_workers_that_create_the_tables_at_the_same_moment_try_again(tmp_path, monkeypatch):
    opened, real = [], store.RDBStorage

    def late(*arguments, **settings):
        opened.append(1)
        if len(opened) < 3:
            raise sqlalchemy.exc.IntegrityError("create table", {}, ValueError("duplicate key"))
        return real(*arguments, **settings)

    monkeypatch.setattr(store, "RDBStorage", late)
    monkeypatch.setattr(store, "WAIT_S", 0)
    assert store.connect(f"sqlite:///{tmp_path}/sweep.db").engine.name == "sqlite"
    opened.clear()
    monkeypatch.setattr(store, "TRIES", 2)
    with pytest.raises(ConfigError, match=r"cannot be used: .*duplicate key"):
        store.connect(f"sqlite:///{tmp_path}/other.db")
