"""A table of runs is only as good as its worst folder: states, half-written files, and many of them."""

import fcntl
import io
import json
import math
import os
import time
from pathlib import Path

import pytest
from rich.console import Console

from metapl.runs import find
from metapl.schema import ConfigError

CONFIG = """
seed = 0
[data]
name = "digits"
split = "digits@40#0"
[[stages]]
steps = 3000
method = {name = "mpl"}
[[stages]]
steps = 100
method = {name = "supervised"}
"""
RESULT = {"accuracy": 0.8125, "std": 0.01, "accuracies": {"0": 0.8, "1": 0.825}}


def make(path: Path, **files: str) -> Path:
    """A run with its settings and whatever else it is to have."""
    path.mkdir(parents=True)
    for name, text in (
        {"config.toml": CONFIG} | {name.replace("__", "."): text for name, text in files.items()}
    ).items():
        (path / name).write_text(text)
    return path


def shown(found: list[find.Run], width: int = 200) -> str:
    out = io.StringIO()
    Console(file=out, width=width).print(find.table(found))
    return out.getvalue()


def line(stage: int, step: int) -> str:
    return json.dumps({"seeds": [0, 1], "stage": stage, "step": step, "loss": [0.1, 0.2]}) + "\n"


def test_a_finished_run_has_its_result(tmp_path):
    (found,) = find.find_runs([make(tmp_path / "a", result__json=json.dumps(RESULT), metrics__jsonl=line(1, 100))])
    assert found.state == "finished"
    assert (found.method, found.data) == ("mpl → supervised", "digits@40#0")
    assert (found.steps, found.total_steps) == (3100, 3100)
    assert "81.25 ± 1.00 (2)" in shown([found])
    assert "3,100 of 3,100" in shown([found])


def test_a_run_is_running_only_while_its_process_holds_the_lock(tmp_path):
    run = make(tmp_path / "a", lock=f"{os.getpid()}\n", metrics__jsonl=line(0, 500))
    with (run / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = find.read_run(run)
        assert (found.state, found.pid, found.steps) == ("running", os.getpid(), 500)
        assert f"pid {os.getpid()}" in shown([found])
    assert find.read_run(run).pid is None  # alive, but it has let go
    (run / "lock").write_text(str(2**22 + 1))  # no such process
    assert find.read_run(run).state == "failed"
    for odd in ("", "x", "-", "9" * 30):
        (run / "lock").write_text(odd)
        assert find.read_run(run).pid is None


def test_a_stopped_run_can_be_resumed_if_it_has_a_checkpoint(tmp_path):
    run = make(tmp_path / "a", metrics__jsonl=line(0, 500) + line(1, 20))
    assert find.read_run(run).state == "failed"
    (run / "checkpoints").mkdir()
    assert find.read_run(run).state == "failed"
    (run / "checkpoints" / "tmp-00003000").mkdir()
    assert find.read_run(run).state == "failed"
    (run / "checkpoints" / "step-00003000").mkdir()
    found = find.read_run(run)
    assert (found.state, found.steps) == ("stopped, resumable", 3020)
    assert found.note == f"metapl resume {run}"


def test_a_run_of_another_version_is_told_apart_from_a_damaged_one(tmp_path):
    run = make(tmp_path / "a", environment__json='{"metapl": "0.1.0"}')
    newest = run / "checkpoints" / "step-0000000200"
    newest.mkdir(parents=True)
    (newest / "note.json").write_text('{"format": 1}')
    found = find.read_run(run)
    assert (found.state, found.note) == (
        "stopped, other version",
        "started by metapl 0.1.0, which can finish it; this version cannot",
    )
    for content in (f'{{"format": {find.CHECKPOINT_FORMAT}}}', "{", "[]", "{}"):
        (newest / "note.json").write_text(content)
        assert find.read_run(run).state == "stopped, resumable"


def test_a_run_without_a_checkpoint_can_begin_again(tmp_path):
    found = find.read_run(make(tmp_path / "a", environment__json="{}"))
    assert found.state == "stopped, resumable"
    assert "from its beginning" in found.note


def test_a_run_that_has_lost_its_checkpoints_cannot_go_on(tmp_path):
    """As metapl resume has it: where there was one, nothing begins anew."""
    gone = make(tmp_path / "a", environment__json="{}", progress__json="{}")
    damaged = make(tmp_path / "b", environment__json="{}")
    (damaged / "checkpoints" / "damaged-step-0000000100").mkdir(parents=True)
    for run in (gone, damaged):
        assert find.read_run(run)[1] == "failed"
        assert find.read_run(run).note == "no good checkpoint is left"
    (gone / "checkpoints" / "step-0000000100").mkdir(parents=True)
    assert find.read_run(gone).state == "stopped, resumable"


def test_a_run_that_a_guard_has_stopped_would_come_to_the_same_place(tmp_path):
    lines = [json.dumps({"guard": "mask", "level": "warn"}), json.dumps({"guard": "nonfinite", "level": "stop"})]
    stopped = find.read_run(make(tmp_path / "a", environment__json="{}", warnings__jsonl="\n".join(lines) + "\n"))
    assert stopped.state == "failed"
    assert "the guard nonfinite" in stopped.note
    warned = find.read_run(make(tmp_path / "b", environment__json="{}", warnings__jsonl=lines[0]))
    assert warned.state == "stopped, resumable"


def test_seeds_that_train_one_after_another_add_up(tmp_path):
    environment = json.dumps({"seeds": [5, 6, 7], "seeds_at_once": 2})
    last = json.dumps({"seeds": [7], "stage": 1, "step": 40})
    found = find.read_run(make(tmp_path / "a", environment__json=environment, metrics__jsonl=last))
    assert (found.steps, found.total_steps, found.seeds) == (3100 + 3040, 6200, 3)
    nothing_yet = find.read_run(make(tmp_path / "b", environment__json=environment))
    assert (nothing_yet.steps, nothing_yet.total_steps) == (0, 6200)


def test_a_lock_of_another_machine_counts_while_it_is_held(tmp_path):
    run = make(tmp_path / "a", lock=f"{2**22 + 1} elsewhere\n")
    assert find.read_run(run).pid is None
    with (run / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert find.read_run(run).pid == 2**22 + 1


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"config__toml": "stages = [[["}, "config.toml cannot be read"),
        ({"config__toml": ""}, "config.toml is empty"),
        ({"result__json": '{"accuracy": 0.'}, "result.json cannot be read"),
        ({"result__json": "[1]"}, "result.json is empty or not a table"),
        ({"result__json": "[" * 100_000}, "result.json cannot be read"),
        ({"config__toml": "stages = " + "[" * 100_000}, "config.toml cannot be read"),
    ],
)
def test_a_broken_file_is_named_and_hides_nothing(tmp_path, files, words):
    make(tmp_path / "good", result__json=json.dumps(RESULT))
    make(tmp_path / "bad", **files)
    found = {run.path.name: run for run in find.find_runs([tmp_path])}
    assert found["good"].state == "finished"
    assert found["bad"].state == "broken"
    assert words in found["bad"].note
    assert words.split()[0] in shown(list(found.values()))


def test_settings_of_odd_types_do_not_stop_the_table(tmp_path):
    run = make(tmp_path / "[red]", config__toml='stages = [1, {steps = "x", method = 3}]\ndata = "digits"\n')
    make(tmp_path / "b", result__json='{"accuracy": "high", "accuracies": 3}')
    (tmp_path / "b" / "config.toml").unlink()
    found = find.find_runs([tmp_path], "name")
    assert {one.state for one in found} == {"failed", "broken"}
    assert "config.toml is missing" in shown(found)
    assert "[red]" in shown(found)
    assert find.read_run(run).total_steps is None


def test_a_number_that_no_float_holds_is_none(tmp_path):
    found = find.read_run(make(tmp_path / "run", result__json='{"accuracy": 1' + "0" * 400 + "}"))
    assert found.state == "finished"
    assert math.isnan(found.accuracy)


@pytest.mark.parametrize("tail", ["", '{"seeds": [0], "sta', "\0" * 50, "\n\n", "17\n", "[" * 100_000 + "\n"])
def test_the_last_whole_line_counts(tmp_path, tail):
    (tmp_path / "m").write_text(line(0, 1) + line(0, 2) + tail)
    assert find.last_line(tmp_path / "m")["step"] == 2


def test_only_the_end_of_the_metrics_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(find, "_BLOCK", 7)  # lines are longer than a block
    (tmp_path / "m").write_text("".join(line(0, step) for step in range(1000)))
    parsed = []
    monkeypatch.setattr(find, "_parse", lambda text, parse=find._parse: parsed.append(text) or parse(text))
    assert find.last_line(tmp_path / "m")["step"] == 999
    assert len(parsed) < 200
    assert find.last_line(tmp_path / "none") == {}


def test_a_line_without_an_end_is_read_in_a_few_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(find, "_BLOCK", 16)
    (tmp_path / "m").write_text(line(0, 7) + "x" * (1 << 20))
    begin = time.process_time()
    assert find.last_line(tmp_path / "m")["step"] == 7
    assert time.process_time() - begin < 1


def test_runs_are_found_below_and_not_inside_each_other(tmp_path):
    make(tmp_path / "a" / "b" / "c", result__json=json.dumps(RESULT))
    make(tmp_path / "a" / "b" / "c" / "checkpoints" / "x")
    make(tmp_path / ".hidden" / "d")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "notes").mkdir()
    assert [run.path for run in find.find_runs([tmp_path, tmp_path / "a"])] == [tmp_path / "a" / "b" / "c"]
    with pytest.raises(ConfigError, match="is not a folder"):
        find.find_runs([tmp_path / "none"])


def test_the_orders(tmp_path):
    for index, name in enumerate("bca"):
        run = make(tmp_path / name, result__json=json.dumps(RESULT | {"accuracy": [0.2, 0.9, 0.5][index]}))
        for path in [*run.iterdir(), run]:
            os.utime(path, (index, index))
    make(tmp_path / "d")
    os.utime(tmp_path / "d" / "config.toml", (9, 9))
    names = {
        sort: "".join(run.path.name for run in find.find_runs([tmp_path], sort))
        for sort in ("changed", "name", "accuracy")
    }
    assert names == {"changed": "dacb", "name": "abcd", "accuracy": "cabd"}


def test_hundreds_of_runs_take_a_moment(tmp_path):
    for index in range(300):
        make(tmp_path / f"run-{index}", metrics__jsonl=line(0, 1) * 200)
    start = time.process_time()  # of this process alone, however busy the machine is
    found = find.find_runs([tmp_path])
    shown(found)
    assert len(found) == 300
    assert time.process_time() - start < 3


def test_json_is_for_programs(tmp_path):
    make(tmp_path / "a", result__json=json.dumps(RESULT))
    (found,) = json.loads(json.dumps(find.as_json(find.find_runs([tmp_path]))))
    assert found["path"] == str(tmp_path / "a")
    assert (found["state"], found["accuracy"], found["seeds"]) == ("finished", 0.8125, 2)
