"""A run that is killed, again and again, at any moment, ends with the same bits as one that was left in peace."""

import json
import os
import random
import signal
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest
from PIL import Image

from tests.forked import Command

SETTINGS = """
log_every_steps = 20
eval_every_steps = 30
checkpoint = {every_steps = 10, keep = 3}
[data]
name = "digits"
split = "digits@100#0"
[augmentation.strong]
layers = 1
ops = ["invert"]
[model]
hidden = [16]
activation = "relu"
[[stages]]
steps = 60
labeled_batch = 20
unlabeled_batch = 20
method = {name = "mpl", consistency = {weight = 1.0}}
[[stages]]
steps = 30
labeled_batch = 20
method = {name = "supervised", optimizer.average_decay = 0.9}
"""

FED_FROM_FILES = """
log_every_steps = 10
eval_every_steps = 30
checkpoint = {every_steps = 10, keep = 3}
[data]
name = "folder"
path = "pictures"
size = 6
feed = "files"
[augmentation.strong]
layers = 1
ops = ["invert"]
[model]
hidden = [8]
activation = "relu"
[[stages]]
steps = 60
labeled_batch = 6
unlabeled_batch = 40
method = {name = "mpl", consistency = {weight = 1.0}}
"""


@pytest.fixture(scope="module")
def start(tmp_path_factory) -> Callable[..., Command]:
    """Starts `metapl` in a process of its own; what one has compiled, the next ones find (conftest.py)."""
    place = tmp_path_factory.mktemp("kill")
    (place / "my.toml").write_text(SETTINGS)

    def start(*words: str) -> Command:
        return Command(place, words, os.environ)

    start.place = place  # type: ignore[attr-defined]
    return start


@pytest.fixture(scope="module")
def whole(start) -> Path:
    """The run that nobody disturbs."""
    child = start("train", "my.toml", "--seeds", "2", "--seeds-at-once", "1", "--out", "whole")
    said, _ = child.communicate(timeout=300)
    assert child.returncode == 0, said
    return start.place / "whole"


def until(child: Command, condition: Callable[[], bool], seconds: float = 120) -> None:
    """Look as often as possible whether the moment has come."""
    end = time.monotonic() + seconds
    while not condition() and child.poll() is None:
        assert time.monotonic() < end
        time.sleep(0.0005)


def kill(child: Command) -> str:
    child.send_signal(signal.SIGKILL)
    return child.communicate()[0]


def assert_same_run(one: Path, two: Path) -> None:
    """Every array of the last state, every line of the metrics, every evaluation, all weights; but for the seconds."""
    weights = sorted(path.name for path in one.glob("weights*.safetensors"))
    assert weights
    for name in ("metrics.jsonl", "evaluations.csv", "confusion.npz", *weights):
        assert (one / name).read_bytes() == (two / name).read_bytes(), name
    results = [json.loads((run / "result.json").read_text()) | {"seconds": 0} for run in (one, two)]
    assert results[0] == results[1]
    last = [sorted((run / "checkpoints").glob("step-*"))[-1] for run in (one, two)]
    assert last[0].name == last[1].name
    reader = ocp.PyTreeCheckpointer()
    with warnings.catch_warnings(action="ignore"):  # orbax: of devices, which nobody has told it
        states = [jax.tree.leaves(reader.restore((path / "state").absolute())) for path in last]
    assert len(states[0]) > 10
    for a, b in zip(*states, strict=True):
        np.testing.assert_array_equal(a, b)


def test_killed_again_and_again_a_run_ends_with_the_same_bits(start, whole):
    run, moments = start.place / "killed", random.Random(time.time_ns())
    checkpoints, metrics = run / "checkpoints", run / "metrics.jsonl"

    def writing() -> bool:
        return any(checkpoints.glob("tmp-*/*"))

    # Before the first checkpoint: there is nothing to go on from, and resume says so.
    child = start("train", "my.toml", "--seeds", "2", "--seeds-at-once", "1", "--out", "killed")
    until(child, metrics.exists)
    time.sleep(moments.uniform(0, 0.1))
    kill(child)
    said = []
    for _ in range(2):  # inside of a write, each time of another checkpoint
        child = start("resume", "killed")
        until(child, lambda: writing() and (run / "progress.json").exists())
        time.sleep(moments.uniform(0, 0.06))
        said.append(kill(child))
    child = start("resume", "killed")  # while it reads its checkpoint, or soon after
    until(child, lambda: '"resumed"' in (run / "log.jsonl").read_text().splitlines()[-1])
    time.sleep(moments.uniform(0, 0.5))
    said.append(kill(child))
    child = start("resume", "killed")  # in the second group of seeds
    until(child, (run / "weights-0.safetensors").exists)
    time.sleep(moments.uniform(0, 0.3))  # a fast machine trains the second group in less than a second
    said.append(kill(child))
    child = start("resume", "killed")
    said.append(child.communicate(timeout=300)[0])
    assert child.returncode == 0, said[-1]
    assert "has no checkpoint yet" in said[0]
    assert "continuing from step-" in said[-1]
    assert_same_run(run, whole)


def draw_pictures(place: Path) -> None:
    """Pictures of several sizes, of two classes that differ in nothing."""
    draw = np.random.default_rng(0)
    for part in ("labeled/a", "labeled/b", "unlabeled", "test/a", "test/b"):
        (place / part).mkdir(parents=True)
        for number in range(17):
            Image.fromarray(draw.integers(0, 256, (6 + number % 3, 8, 3), np.uint8)).save(
                place / part / f"{number}.png"
            )


def test_fed_from_files_a_killed_run_ends_with_the_same_bits(start):
    """Killed at any moment, inside of a write, and by a picture that was gone for a while."""
    draw_pictures(start.place / "pictures")
    (start.place / "fed.toml").write_text(FED_FROM_FILES)
    child = start("train", "fed.toml", "--out", "fed-whole")
    said, _ = child.communicate(timeout=300)
    assert child.returncode == 0, said
    assert "read and decoded when a step needs them" in said
    run, moments = start.place / "fed-killed", random.Random(time.time_ns())
    child = start("train", "fed.toml", "--out", "fed-killed")
    until(child, lambda: any((run / "checkpoints").glob("step-*")))
    time.sleep(moments.uniform(0, 0.3))
    kill(child)
    child = start("resume", "fed-killed")
    until(child, lambda: any((run / "checkpoints").glob("tmp-*/*")))
    kill(child)
    picture, away = start.place / "pictures/unlabeled/7.png", start.place / "away.png"
    picture.rename(away)
    child = start("resume", "fed-killed")
    said, _ = child.communicate(timeout=300)
    assert child.returncode == 2
    assert "unlabeled had 17 pictures, has 16" in " ".join(said.split())
    away.rename(picture)
    child = start("resume", "fed-killed")
    said, _ = child.communicate(timeout=300)
    assert child.returncode == 0, said
    assert_same_run(run, start.place / "fed-whole")
