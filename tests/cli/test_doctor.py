"""The doctor must stay well where everything else is sick."""

import io
import json
import os
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

import pytest
from rich.console import Console

from metapl.cli import doctor, doctor_checks, smoke
from metapl.cli import main as cli
from metapl.schema import ConfigError
from metapl.system import runtime

GOOD = {
    "devices": ["cpu cpu"],
    "xla_flags": "--mine=1 --theirs=2",
    "left_out_xla_flags": [],
    "memory_not_kept": "",
    "onednn": False,
    "onednn_hint": "",
    "finite": True,
    "same_twice": True,
    "seconds": 1.5,
}


@pytest.fixture
def well(monkeypatch, tmp_path):
    """A machine on which everything is fine; the step is not done."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in [name for name in os.environ if name.startswith(("JAX_", "XLA_"))]:
        monkeypatch.delenv(name)
    stdout = "a library's greeting\n" + json.dumps(GOOD)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 0, stdout, ""))
    return tmp_path


def by_topic(findings: list[doctor_checks.MachineFinding]) -> dict[str, doctor_checks.MachineFinding]:
    return {finding.topic: finding for finding in findings}


def test_a_well_machine(well):
    found = doctor_checks.examine()
    assert {finding.state for finding in found} <= {"fine", "note"}
    assert not doctor.is_broken(found)
    assert set(by_topic(found)) >= {"versions", "machine", "compilation cache", "data", "disk", "devices", "smoke step"}
    assert f"jax {metadata.version('jax')}" in by_topic(found)["versions"].text
    assert list(well.iterdir()) == []  # it looks, and leaves nothing


def test_json_and_the_exit_code(well, capsys, monkeypatch):
    cli.main(["doctor", "--json"])
    assert {"topic", "state", "text", "advice"} == set(json.loads(capsys.readouterr().out)[0])
    monkeypatch.setattr(
        doctor_checks, "step", lambda: [doctor_checks.MachineFinding("smoke step", "broken", "[bold]", "pray")]
    )
    with pytest.raises(SystemExit) as stop:
        cli.main(["doctor"])
    assert stop.value.code == 1
    out = capsys.readouterr().out
    assert "[bold]" in out
    assert "→ pray" in out


def test_who_set_which_flag(well):
    flags = by_topic(doctor_checks.judge(GOOD, "--mine=1"))["XLA flags"].text
    assert flags == "--mine=1 (you), --theirs=2 (metapl)"


def test_which_flag_was_left_out(well):
    finding = by_topic(doctor_checks.judge(GOOD | {"left_out_xla_flags": ["--gone=3"]}, ""))["XLA flags"]
    assert finding.state == "note"
    assert finding.text.endswith("; left out: --gone=3")
    assert f"jaxlib {metadata.version('jaxlib')} does not know" in finding.advice


@pytest.mark.parametrize(
    ("name", "words"), [("finite", "not all numbers are finite"), ("same_twice", "different bits")]
)
def test_a_step_that_cannot_be_trusted(name, words):
    found = by_topic(doctor_checks.judge(GOOD | {name: False}, ""))["smoke step"]
    assert found.state == "broken"
    assert words in found.text


@pytest.mark.parametrize(
    ("errors", "reason", "advice"),
    [
        (
            "F1116 parse.cc:234] Unknown flag in XLA_FLAGS: --x\n*** Check failure ***\n",
            "Unknown flag",
            "unset XLA_FLAGS",
        ),
        (
            "Traceback\nRuntimeError: jaxlib is version 0.11.1, but this version of jax requires version >= 0.11.2.\n",
            "requires version",
            "do not work together",
        ),
        ("Traceback\nRuntimeError: Unable to initialize backend 'mars'\n", "Unable", "JAX_PLATFORMS"),
        ("", "exit code -9", "metapl.cli.smoke"),
    ],
)
def test_a_step_that_crashes_says_why(well, monkeypatch, errors, reason, advice):
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], -9, "", errors))
    (found,) = doctor_checks.step()
    assert found.state == "broken"
    assert reason in found.text
    assert advice in found.advice


def test_nonsense_in_xla_flags_in_a_real_process(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--nonsense=3")
    monkeypatch.setenv("PYTHONPATH", str(Path(doctor.__file__).parents[2]))
    (found,) = doctor_checks.step()
    assert (found.state, found.text) == ("broken", "Unknown flag in XLA_FLAGS: --nonsense=3")
    assert "unset XLA_FLAGS" in found.advice


def test_a_step_that_hangs(well, monkeypatch):
    def hang(*_, timeout, **__):
        raise subprocess.TimeoutExpired("x", timeout)

    monkeypatch.setattr(subprocess, "run", hang)
    assert doctor_checks.step()[0].state == "broken"


def test_it_says_whether_freed_memory_is_kept():
    kept, returned = (doctor_checks.judge(GOOD | {"memory_not_kept": why}, "") for why in ("", "a reason"))
    assert "kept" in by_topic(kept)["freed memory"].text
    assert by_topic(returned)["freed memory"].text.endswith("a reason")


@pytest.mark.parametrize(
    ("by_onednn", "hint", "state", "word"),
    [(True, "", "fine", "by oneDNN"), (False, "", "fine", "by XLA"), (False, "pip install it", "note", "by XLA")],
)
def test_it_says_what_computes_convolutions(by_onednn, hint, state, word):
    findings = doctor_checks.judge(GOOD | {"onednn": by_onednn, "onednn_hint": hint}, "")
    convolutions = by_topic(findings)["convolutions"]
    assert convolutions.text.startswith(word)
    assert convolutions.state == state
    assert convolutions.advice.startswith(hint)


def test_the_step_itself(monkeypatch):
    monkeypatch.setattr(runtime, "start", lambda: None)
    found = smoke.smoke()
    assert found["finite"]
    assert found["same_twice"]
    assert found["devices"]


def test_a_folder_that_cannot_be_written_to(well, monkeypatch):
    def refuse(**_):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(doctor_checks.tempfile, "TemporaryFile", refuse)
    found = by_topic(doctor_checks.examine())
    for topic in ("compilation cache", "disk"):
        assert found[topic].state == "note"  # slower, or --out elsewhere; but runs work
        assert "Read-only file system" in found[topic].text


def test_a_cache_folder_that_is_a_file(well, monkeypatch):
    (well / "file").touch()
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(well / "file"))
    assert by_topic(doctor_checks.compilation_cache())["compilation cache"].state == "note"


def test_no_home(well, monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", homeless)
    found = by_topic(doctor_checks.examine())
    assert found["compilation cache"].state == found["data"].state == "broken"
    assert "set XDG_CACHE_HOME" in found["data"].advice
    with pytest.raises(ConfigError, match="no home folder"):
        runtime.cache_folder()


def test_which_data_are_there(well):
    (well / "data" / "cifar-10-batches-py").mkdir(parents=True)
    (well / "data" / "mnist").mkdir()
    (well / "data" / "mnist" / "train-images-idx3-ubyte.gz").touch()
    (found,) = doctor_checks.data_files(well / "data")
    there, lacking = found.text.split("; not found: ")
    assert "cifar10 (" in there
    assert "mnist (" in there
    assert lacking == "cifar100, svhn, fashion_mnist, imagenet"
    assert by_topic(doctor_checks.data_files(well / "nowhere"))["data"].state == "broken"


def test_missing_packages(monkeypatch):
    monkeypatch.setattr(doctor_checks, "_version", lambda name: None if name == "grain" else "1")
    assert doctor_checks.versions()[0].state == "broken"
    assert "grain" in doctor_checks.versions()[0].advice
    monkeypatch.setattr(doctor_checks, "_version", lambda name: None if name == "optuna" else "1")
    assert [finding.state for finding in doctor_checks.versions()] == ["fine", "note"]


def test_little_room_is_said(well, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**9, 10**9, 10**6))
    monkeypatch.setattr(doctor_checks, "memory", lambda: (10**9, 10**8))
    found = by_topic(doctor_checks.examine())
    assert found["disk"].state == found["machine"].state == "note"


def test_the_table_keeps_brackets(well):
    out = io.StringIO()
    Console(file=out, width=100).print(doctor.table([doctor_checks.MachineFinding("t", "note", "[x]", "[y]")]))
    assert "[x]" in out.getvalue()
    assert "→ [y]" in out.getvalue()
