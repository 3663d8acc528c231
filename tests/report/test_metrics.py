"""Curves from files that are complete, long, half-written or full of something else."""

import json
import math
import os

import numpy as np
import pytest

from metapl.report import metrics

from .synthetic_runs import line, make

HUGE = '{"step": 1' + "0" * 400 + ', "stage": 0}'
NAMES = ("loss", "test_accuracy", "val_accuracy", metrics.LARGEST)


def read(run, stage_steps) -> metrics.Curves:
    return metrics.read(run, stage_steps, NAMES)


def test_a_short_file_is_read_completely_and_stages_follow_each_other(tmp_path):
    lines = [line(50, loss=[1.0, 3.0], seeds=[0, 1]), line(100, loss=[2.0, None], seeds=[0, 1]), line(5, 1, loss=[7.0])]
    curves = read(make(tmp_path / "run", lines=lines), [100, 10])
    steps, values = curves.numbers["loss"].arrays()
    assert steps.tolist() == [50, 50, 100, 100, 105]
    assert values[[0, 1, 2, 4]].tolist() == [1, 3, 2, 7]
    assert math.isnan(values[3])
    assert (curves.reports, curves.of_reports, curves.whole, curves.seeds) == (3, 3, True, {0, 1})


def test_of_a_histogram_the_most_frequent_class_is_kept(tmp_path):
    run = make(tmp_path / "run", lines=[line(1, pseudo_label_histogram=[[0.2, 0.5, 0.3]])])
    assert read(run, [1]).numbers[metrics.LARGEST].values == [0.5]


@pytest.mark.parametrize("end", [b"", b'{"seeds": [0], "stage": 0, "st'])
def test_of_a_long_file_lines_at_equal_distances_are_picked(tmp_path, monkeypatch, end):
    monkeypatch.setattr(metrics, "WHOLE_BYTES", 5_000)
    monkeypatch.setattr(metrics, "PICKED", 50)
    monkeypatch.setattr(metrics, "FEWEST", 50)
    monkeypatch.setattr(metrics, "_LARGE_BLOCK", 700)
    lines = [line(step, loss=[float(step)]) for step in range(1, 1001)]
    for place in (3, 500, 999):
        lines[place] |= {"test_accuracy": [place / 1000]}
    run = make(tmp_path / "run", lines=lines)
    with (run / "metrics.jsonl").open("ab") as file:
        file.write(end)
    curves = read(run, [1000])
    steps, values = curves.numbers["loss"].arrays()
    assert steps.tolist() == values.tolist()
    assert len(steps) == curves.reports == 50
    assert max(steps[1:] - steps[:-1]) < 25
    assert steps[0] == 1
    assert steps[-1] > 970
    assert curves.of_reports == pytest.approx(1000, rel=0.05)
    assert not curves.whole
    assert curves.numbers["test_accuracy"].steps == [4, 501, 1000], "evaluations are never left out"


def test_of_very_many_evaluations_some_at_equal_distances_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(metrics, "WHOLE_BYTES", 100)
    monkeypatch.setattr(metrics, "MOST_EVALUATIONS", 10)
    run = make(tmp_path / "run", lines=[line(step, test_accuracy=[0.5]) for step in range(100)])
    assert read(run, [100]).numbers["test_accuracy"].steps == [float(step) for step in range(0, 100, 16)]


def test_lines_longer_than_a_block_are_found(tmp_path, monkeypatch):
    monkeypatch.setattr(metrics, "WHOLE_BYTES", 1000)
    monkeypatch.setattr(metrics, "_BLOCK", 16)
    lines = [line(step, loss=[float(step)], many=[0.0] * 50) for step in range(20)]
    assert read(make(tmp_path / "run", lines=lines), [20]).numbers["loss"].values == list(map(float, range(20)))


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_line_without_an_end_is_not_read_again_and_again(tmp_path, monkeypatch, end):
    path = make(tmp_path / "run", lines=[line(1, loss=[2.0])]) / "metrics.jsonl"
    with path.open("a") as file:
        file.write("x" * (1 << 20) + end)
    monkeypatch.setattr(metrics, "WHOLE_BYTES", 100)
    read_bytes, pread = [], os.pread
    monkeypatch.setattr(os, "pread", lambda *where: read_bytes.append(where[1]) or pread(*where))
    curves = read(path.parent, [100])
    assert curves.numbers["loss"].values == [2.0]
    assert sum(read_bytes) < 5 << 20


def test_a_finished_run_s_evaluations_come_from_its_table(tmp_path):
    lines = [line(50, test_accuracy=[0.25])]
    run = make(tmp_path / "run", accuracies={0: 0.5}, lines=lines, evaluations=[(0, 0, 50, 0.251), (0, 1, 5, 0.5)])
    points = read(run, [100, 10]).numbers["test_accuracy"]
    assert (points.steps, points.values) == ([50.0, 105.0], [0.251, 0.5])


NOT_REPORTS = ("no json\n", "[1, 2]\n", '{"step": "x"}\n', '{"step": 1, "stage": -1}\n', "[" * 5000, "\0\0", HUGE)


@pytest.mark.parametrize("text", ["", "\n\n", *NOT_REPORTS])
def test_lines_that_are_not_reports_are_counted_and_left_out(tmp_path, text):
    run = make(tmp_path / "run")
    (run / "metrics.jsonl").write_text(text + ("\n" if text else "") + json.dumps(line(1, loss=[2.0])))
    curves = read(run, [])
    assert curves.numbers["loss"].values == [2.0]
    assert curves.damaged == bool(text.strip())


def test_values_too_large_for_a_float_are_gaps(tmp_path):
    lines, evaluations = [line(1, loss=[10**400, 2.0])], [(0, 0, 10**400, 0.5)]
    run = make(tmp_path / "run", lines=lines, accuracies={0: 0.5}, evaluations=evaluations)
    curves = read(run, [100])
    assert np.array_equal(curves.numbers["loss"].values, [np.nan, 2.0], equal_nan=True)
    assert "test_accuracy" not in curves.numbers


def test_no_file_gives_no_curves(tmp_path):
    run = make(tmp_path / "run")
    (run / "metrics.jsonl").unlink()
    assert read(run, [100]).numbers == {}


def test_evaluations_of_a_file_that_grows_are_read_once(tmp_path, monkeypatch):
    monkeypatch.setattr(metrics, "WHOLE_BYTES", 100)
    monkeypatch.setattr(metrics, "MOST_EVALUATIONS", 3)
    run = make(tmp_path / "run", lines=[line(step, test_accuracy=[step / 100]) for step in (1, 2)])
    path, reader = run / "metrics.jsonl", metrics.CachedReader()

    def steps() -> list[float]:
        return reader.read(run, [100], NAMES).numbers["test_accuracy"].steps

    assert steps() == [1, 2]
    text = path.read_bytes()
    path.write_bytes(b"x" * len(text) + json.dumps(line(3, test_accuracy=[0.1])).encode()[:30])
    assert steps() == [1, 2]  # what was read is not read again, and half a line is not read yet
    with path.open("ab") as file:
        file.write(json.dumps(line(3, test_accuracy=[0.1])).encode()[30:] + b"\n")
    assert steps() == [1, 2, 3]
    with path.open("ab") as file:
        file.writelines(json.dumps(line(step, test_accuracy=[0.1])).encode() + b"\n" for step in (4, 5, 6))
    assert steps() == [1, 3, 5]
    path.write_bytes(text)
    assert steps() == [1, 2]
