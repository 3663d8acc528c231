"""Reading runs that are complete, unfinished, damaged, or empty folders."""

import io
import json
import os
from random import Random

import numpy as np
import pytest

from metapl.report import html, read
from metapl.report.build import build, no_pictures
from metapl.schema import ConfigError

from .synthetic_runs import CLASSES, make


def only(path) -> read.ReportedRun:
    (found,) = read.read_runs([path])
    return found


def test_a_finished_run_is_read(tmp_path):
    found = only(make(tmp_path / "run", accuracies={0: 0.5, 3: 0.75}))
    assert found.finished
    assert found.scores("accuracy") == {0: 0.5, 3: 0.75}
    assert (found.labels, found.stage_steps, list(found.class_names)) == (40, [100], list(CLASSES))
    assert found.confusion.tolist() == [[8, 2, 0], [1, 9, 0], [0, 3, 7]]
    assert found.missing == []


@pytest.mark.parametrize("name", ["config.toml", "split.json", "confusion.npz", "result.json"])
@pytest.mark.parametrize("content", [b"", b"\x00\xff{", b'{"a": '])
def test_a_damaged_file_is_named_and_the_rest_is_read(tmp_path, name, content):
    run = make(tmp_path / "run", accuracies={0: 0.5})
    (run / name).write_bytes(content)
    found = only(run)
    assert name in found.missing
    assert found.finished == (name in ("split.json", "confusion.npz"))


@pytest.mark.parametrize("name", ["environment.json", "metrics.jsonl", "evaluations.csv"])
def test_a_missing_file_is_named(tmp_path, name):
    run = make(tmp_path / "run", accuracies={0: 0.5})
    (run / name).unlink()
    assert only(run).missing == [name]


@pytest.mark.parametrize("value", [None, [], "x", {"accuracy": 3}, {"accuracy": {"seeds": {"a": 1, "0": None}}}])
def test_a_malformed_result_is_in_no_comparison(tmp_path, value):
    run = make(tmp_path / "run", accuracies={0: 0.5})
    (run / "result.json").write_text(json.dumps({"final": value}))
    assert not only(run).finished


def test_numbers_too_large_for_a_float_are_ignored(tmp_path):
    run = make(tmp_path / "run", accuracies={0: 0.5}, labels=10**400)
    told = {"final": {"accuracy": {"seeds": {"0": 10**400, "1": 0.5, "2" * 5000: 0.5}}}, "seconds": 10**400}
    (run / "result.json").write_text(json.dumps(told))
    found = only(run)
    assert found.scores("accuracy") == {1: 0.5}
    assert found.labels is None
    html.page(*build([found], no_pictures)).encode()


def test_a_damaged_confusion_matrix_is_left_out(tmp_path):
    whole = (make(tmp_path / "run", accuracies={0: 0.5}) / "confusion.npz").read_bytes()
    path, random = tmp_path / "run" / "confusion.npz", Random(0)
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(3):
            damaged[random.randrange(len(damaged))] = random.randrange(256)
        path.write_bytes(damaged)
        missing: list[str] = []
        found, _ = read._confusion(path, missing)
        assert (found is None) == bool(missing)
    np.save(path.with_suffix(".npy"), np.zeros(3))
    path.with_suffix(".npy").replace(path)
    assert read._confusion(path, []) == (None, [])


def test_an_unfinished_run_and_an_empty_folder_keep_their_state(tmp_path):
    make(tmp_path / "one")
    (tmp_path / "none").mkdir()
    found = read.read_runs([tmp_path / "one", tmp_path / "none"])
    assert [run.run.state for run in found] == ["stopped, resumable", "broken"]
    assert "config.toml is missing" in found[1].run.note


@pytest.mark.parametrize(("file", "kind"), [("sweep.db", "of a sweep"), ("two_moons.html", "of metapl demo")])
def test_the_folder_of_a_sweep_or_a_demo_is_refused_unless_it_has_runs(tmp_path, file, kind):
    (tmp_path / file).touch()
    with pytest.raises(ConfigError, match=kind):
        read.read_runs([tmp_path])
    make(tmp_path / "run", accuracies={0: 0.5})
    assert [one.name for one in read.read_runs([tmp_path])] == ["run"]


def test_runs_come_once_in_the_order_given_with_names_that_differ(tmp_path):
    for place in ("b/run", "a/run", "a/other"):
        make(tmp_path / place)
    found = read.read_runs([tmp_path / "b" / "run", tmp_path / "a", tmp_path])
    assert [run.name for run in found] == ["b/run", "a/other", "a/run"]
    assert [run.anchor for run in found] == ["run-1", "run-2", "run-3"]


@pytest.mark.parametrize("name", ["nowhere", "x" * 300])
def test_a_wrong_path_is_refused(tmp_path, name):
    with pytest.raises(ConfigError, match="is not a folder"):
        read.read_runs([tmp_path / name])


def test_a_folder_without_permission_is_broken(tmp_path, monkeypatch):
    make(tmp_path / "good", accuracies={0: 0.5})
    make(tmp_path / "shut", accuracies={0: 0.5})
    stat, opened = os.stat, io.open

    def refuse(path) -> None:
        if "shut/" in str(path):
            raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "stat", lambda path, **how: refuse(path) or stat(path, **how))
    monkeypatch.setattr(io, "open", lambda path, *how, **more: refuse(path) or opened(path, *how, **more))
    good, shut = read.read_runs([tmp_path])
    assert good.finished
    assert shut.run.state == "broken"
    assert "Permission denied" in shut.run.note


def test_warnings_of_guards_are_read(tmp_path):
    run = make(tmp_path / "run")
    told = {"guard": "collapse", "level": "warn", "step": 7, "stage": 0, "text": "all one class"}
    (run / "warnings.jsonl").write_text("no json\n" + json.dumps(told) + "\n")
    assert only(run).warnings == ["collapse (step 7 of stage 0): all one class"]
