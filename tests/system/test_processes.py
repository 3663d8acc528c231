"""Two real processes on one machine: the same run as one process, and no one waits for a process that is gone."""

import errno
import json
import os
import signal
import threading
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from PIL import Image

from metapl.runs import run_folder
from metapl.schema import ConfigError, validate
from metapl.system import processes, runtime
from metapl.system.runtime import Cluster
from tests.system.together import Place, ended

SETTINGS = """
log_every_steps = 10
checkpoint = {every_steps = 5, keep = 2}
[data]
name = "folder"
path = "pictures"
size = 8
[model]
hidden = [8]
activation = "relu"
[augmentation]
weak = {flip = false, shift_pixels = 0}
strong = {layers = 1, ops = ["brightness"], cutout = 0}
[[stages]]
steps = 20
labeled_batch = 8
unlabeled_batch = 16
method = {name = "mpl"}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Place:
    place = Place(tmp_path_factory.mktemp("processes"), SETTINGS)
    write_pictures(place.folder / "pictures")
    return place


def write_pictures(folder: Path) -> None:
    """Two classes: dark and bright pictures."""
    draw = np.random.default_rng(0)
    for part, count in (("labeled/dark", 8), ("labeled/bright", 8), ("unlabeled", 24), ("test/dark", 8)):
        (folder / part).mkdir(parents=True)
        for number in range(count):
            shift = 100 * (part.endswith("bright") or number % 2 * (part == "unlabeled"))
            Image.fromarray(draw.integers(shift, shift + 150, (9, 8, 3), np.uint8)).save(
                folder / part / f"{number}.png"
            )


@pytest.fixture(scope="module")
def whole(place) -> list[str]:
    """The run in one process, and in two."""
    ended([place.start("train", "my.toml", "--out", "one", devices=2)])
    return ended(place.start_two("train", "my.toml", "--out", "two"))


def test_two_processes_give_the_numbers_of_one(place, whole):
    for name in ("metrics.jsonl", "weights.safetensors", "evaluations.csv"):
        assert (place.folder / "one" / name).read_bytes() == (place.folder / "two" / name).read_bytes(), name
    assert "2 devices share every batch, in 2 processes" in whole[0]
    assert "accuracy" in whole[0]
    assert "accuracy" not in whole[1], "one process speaks"


def test_processes_connect_before_the_first_program_is_compiled(whole):
    """Gloo gives up after 30 s: who has to compile what the other has kept would come too late."""
    assert -1 < whole[0].find("[Gloo] Rank 0 is connected") < whole[0].index("mpl: starts")


def test_when_the_leader_is_killed_the_other_ends_and_the_run_goes_on(place, whole):
    """With one process and one device. Both read files; `test_whole_run.py` kills another process than the leader."""
    run = "lost"
    children = place.start_two("train", "my.toml", "--out", run, "--stages.0.steps", "100000", "--data.feed", "files")
    end = time.monotonic() + 120
    while not any((place.folder / run).glob("checkpoints/step-*")) and time.monotonic() < end:
        time.sleep(0.05)
    children[0].send_signal(signal.SIGKILL)
    begin = time.monotonic()
    said, _ = children[1].communicate(timeout=300)
    assert time.monotonic() - begin < processes.PATIENCE_S + processes.LINGER_S + 30
    assert children[1].returncode == processes.LOST, said
    assert "process 0 of 2 is lost" in said
    children[0].communicate()
    going = place.start("resume", run)
    while not any('"resumed"' in line for line in (place.folder / run / "log.jsonl").read_text().splitlines()):
        assert going.poll() is None
        time.sleep(0.05)
    before = len(place.lines(run))
    while len(place.lines(run)) <= before:
        assert going.poll() is None, going.communicate()[0]
        time.sleep(0.05)
    going.send_signal(signal.SIGTERM)
    told, _ = going.communicate(timeout=300)
    assert going.returncode == 128 + signal.SIGTERM, told
    assert "continuing from step-" in told
    for line, other in zip(place.lines(run), place.lines("one"), strict=False):
        assert line["student_loss"] == pytest.approx(other["student_loss"], rel=1e-4)


def test_alone_nothing_is_asked_of_others():
    assert (processes.index(), processes.count(), processes.is_leader()) == (0, 1, True)
    assert processes.leader_decides(lambda: {"any": object}) == {"any": object}, "not even through JSON"
    assert processes.requested_stop() is None
    with processes.together():
        processes.barrier("here")
    with pytest.raises(ConfigError, match="a wrong word"), processes.together():
        raise ConfigError("a wrong word")


@pytest.mark.parametrize(
    ("cluster", "says"),
    [
        (Cluster(processes=2), "need a --coordinator"),
        (Cluster(coordinator="here:1"), "one needs none"),
        (Cluster(2, 2, "here:1"), "--process-id 2 must be below --processes 2"),
        (Cluster(2, 0, "here"), "takes HOST:PORT, got 'here'"),
        (Cluster(2, 0, "here:1", "slurm"), "omit --coordinator"),
    ],
)
def test_flags_that_do_not_fit_are_refused(cluster, says):
    with pytest.raises(ConfigError, match=says):
        validate(cluster)


def test_a_process_with_another_command_is_refused(monkeypatch):
    given = {"seeds": 1, "stages": [{"steps": 20}], "at_once": "auto"}
    processes.check_same_everywhere(given)
    monkeypatch.setattr(processes, "broadcast", lambda _: given)
    processes.check_same_everywhere(dict(given))
    with pytest.raises(ConfigError, match="was started with another seeds, stages than process 0"):
        processes.check_same_everywhere(given | {"seeds": 2, "stages": [{"steps": 21}]})


def test_a_run_is_told_from_one_with_the_same_settings(tmp_path):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / run_folder.ENVIRONMENT).write_text(json.dumps({"command": ["train", "--out", name]}))
    assert run_folder.fingerprint(tmp_path / "one") != run_folder.fingerprint(tmp_path / "other")


class Leaving:
    """What looks after the others, without any."""

    def __init__(self, client):
        pass

    def leave(self, sentence, code):
        raise SystemExit(f"{code}: {sentence}")

    def wait_for_lost(self):
        raise AssertionError("nobody is lost where a disk is full")

    def close(self):
        pass


def test_a_full_disk_is_a_sentence_for_several_processes_too(monkeypatch):
    monkeypatch.setattr(processes, "_client", object)
    monkeypatch.setattr(processes, "_Watch", Leaving)
    with pytest.raises(SystemExit, match=r"2: runs/mine/log: No space left on device"), processes.together():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "runs/mine/log")


@pytest.mark.parametrize(
    ("cluster", "error", "says"),
    [
        (Cluster(cluster="slurm"), KeyError("SLURM_JOB_ID"), "--cluster slurm finds no .*'SLURM_JOB_ID' is not"),
        (Cluster(cluster="mpi4py"), ImportError("No module named 'mpi4py'"), "--cluster mpi4py .*No module named"),
        (Cluster(cluster="auto"), ValueError("no address"), r"\(no address\): start this process with srun"),
        (Cluster(2, 0, "127.0.0.1:1"), RuntimeError("in use\ntrace"), r"127.0.0.1:1: in use; is it .* port free"),
        (Cluster(2, 0, "127.0.0.1:1"), RuntimeError(), r"127.0.0.1:1: RuntimeError; is it"),
    ],
)
def test_a_cluster_that_is_not_there_is_a_sentence(cluster, error, says, monkeypatch):
    def initialize(*_, **__):
        raise error

    monkeypatch.setattr(jax.distributed, "initialize", initialize)
    with pytest.raises(ConfigError, match=says):
        runtime.connect(cluster)


def test_jax_has_a_name_for_each_cluster(monkeypatch):
    """Of a name that it does not know, it says that it is not supported, wherever it is asked."""
    from jax._src.clusters import ClusterEnv

    asked = []
    monkeypatch.setattr(jax.distributed, "initialize", lambda *_, **words: asked.append(words))
    for name in ("slurm", "k8s", "ompi", "mpi4py", "auto"):
        runtime.connect(Cluster(cluster=name))
    known = {env.name for env in ClusterEnv._cluster_types} | {None}
    assert {words["cluster_detection_method"] for words in asked} <= known


def test_who_waits_in_vain_for_others_is_told(monkeypatch, capfd):
    left = threading.Event()
    monkeypatch.setattr(os, "_exit", lambda code: left.set() if code == 2 else None)
    monkeypatch.setattr(runtime, "JOIN_S", 0.01)
    monkeypatch.setattr(jax.distributed, "initialize", lambda *_, **__: left.wait(10))
    runtime.connect(Cluster(3, 1, "127.0.0.1:1"))
    assert left.is_set()
    assert "not all of the 3 processes came to 127.0.0.1:1 within 0.01 s" in capfd.readouterr().err


@pytest.mark.parametrize("leads", [True, False])
def test_who_lost_a_third_process_waits_until_process_0_has_missed_it(leads, monkeypatch):
    slept = []
    monkeypatch.setattr(processes.time, "sleep", slept.append)
    monkeypatch.setattr(processes, "is_leader", lambda: leads)
    watch = processes._Watch.__new__(processes._Watch)
    watch._patience_s = processes.PATIENCE_S
    watch.wait_for_lost()
    assert watch._patience_s == (4 * processes.BEAT_S if leads else processes.PATIENCE_S)
    assert slept[0] > watch._patience_s + processes.BEAT_S


class Store(dict):
    """What jax.distributed keeps for all."""

    key_value_set = dict.__setitem__

    def key_value_dir_get(self, start):
        return [(key, told) for key, told in self.items() if key.startswith(start)]


@pytest.mark.parametrize(
    ("first", "end", "code", "says"),
    [
        (0, lambda watch: watch._lost(2), processes.LOST, "process 2 of 1 is lost, and the others"),
        (1, lambda watch: watch.leave("a wrong word", 2), 2, "a wrong word"),
    ],
)
def test_what_ends_one_process_ends_the_others_with_its_sentence_and_exit_code(
    first, end, code, says, monkeypatch, capsys
):
    def leaving(code):
        raise SystemExit(code)

    watch = processes._Watch.__new__(processes._Watch)
    watch._client, watch._over = Store(), threading.Event()
    monkeypatch.setattr(os, "_exit", leaving)
    monkeypatch.setattr(processes.time, "sleep", lambda _: None)
    for process, act in ((first, end), (1 - first, processes._Watch._check_others)):
        monkeypatch.setattr(processes, "index", lambda process=process: process)
        with pytest.raises(SystemExit) as stop:
            act(watch)
        assert stop.value.code == code
        assert says in capsys.readouterr().err


def test_a_folder_that_is_not_seen_is_refused(tmp_path, monkeypatch):
    processes.check_visible(tmp_path / "elsewhere")  # one process has nobody to share with
    monkeypatch.setattr(processes, "count", lambda: 2)
    processes.check_visible(tmp_path)
    with pytest.raises(ConfigError, match="needs a folder that all of them share"):
        processes.check_visible(tmp_path / "elsewhere")
