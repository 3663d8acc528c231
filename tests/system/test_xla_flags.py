"""A flag that XLA no longer knows is left out, and the test that finds out runs once for each jaxlib."""

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import metapl
from metapl.system import runtime, xla_flags

GOOD, GONE = runtime.YNN_OPERATIONS, "--xla_no_such_flag=1"
VERSION = metadata.version("jaxlib")


def test_a_real_xla_says_which_flags_it_knows(tmp_path):
    cache = tmp_path / "made" / "xla_flags.json"
    assert xla_flags.accepted([GOOD, GONE], os.environ, cache) == [GOOD]
    assert json.loads(cache.read_text()) == {VERSION: {GOOD: True, GONE: False}}


def test_a_value_that_xla_does_not_know(tmp_path):
    bad = f"{xla_flags.name_of(GOOD)}=no_such_operation"
    assert xla_flags.accepted([bad], os.environ, None) == []


@pytest.fixture
def probes(monkeypatch):
    """Count the processes, and answer in their place: XLA dies of GONE."""
    started = []

    def run(_, env, **__):
        started.append(env["XLA_FLAGS"])
        died = GONE in env["XLA_FLAGS"]
        return subprocess.CompletedProcess([], int(died), "", f"F1 Unknown flag: {GONE}" if died else "a greeting")

    monkeypatch.setattr(subprocess, "run", run)
    return started


def test_each_version_is_asked_once(tmp_path, probes, monkeypatch):
    cache = tmp_path / "xla_flags.json"
    for _ in range(2):
        assert xla_flags.accepted([GOOD, GONE], {}, cache) == [GOOD]
        assert probes == [f"{GOOD} {GONE}", GOOD, GONE]
    monkeypatch.setattr(metadata, "version", lambda _: "99")
    assert xla_flags.accepted([GOOD], {}, cache) == [GOOD]
    assert probes[3:] == [GOOD]
    assert set(json.loads(cache.read_text())) == {VERSION, "99"}


@pytest.mark.parametrize("content", ["{", "[]", '{"VERSION": []}', '{"VERSION": {"FLAG": "yes"}}'])
def test_a_damaged_cache_is_written_again(tmp_path, probes, content):
    cache = tmp_path / "xla_flags.json"
    cache.write_text(content.replace("VERSION", VERSION).replace("FLAG", GOOD))
    assert xla_flags.accepted([GOOD], {}, cache) == [GOOD]
    assert json.loads(cache.read_text())[VERSION] == {GOOD: True}


def test_a_cache_that_cannot_be_written_to(tmp_path, probes):
    (tmp_path / "file").write_text("")
    assert xla_flags.accepted([GOOD, GONE], {}, tmp_path / "file" / "xla_flags.json") == [GOOD]


@pytest.mark.parametrize("failure", ["killed", "slow", "no process"])
def test_without_a_result_a_flag_stays_and_is_tested_again(tmp_path, monkeypatch, failure):
    def run(*_, timeout, **__):
        if failure == "slow":
            raise subprocess.TimeoutExpired("x", timeout)
        if failure == "no process":
            raise OSError
        return subprocess.CompletedProcess([], -9, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    assert xla_flags.accepted([GOOD], {}, tmp_path / "xla_flags.json") == [GOOD]
    assert list(tmp_path.iterdir()) == []


def test_a_users_module_named_like_one_of_ours_is_not_imported(tmp_path, monkeypatch):
    (tmp_path / "jaxlib.py").write_text("raise SystemExit(1)")
    monkeypatch.chdir(tmp_path)
    assert xla_flags._error([GOOD], os.environ) == ""


def test_help_tests_no_flags(tmp_path):
    environment = {"PYTHONPATH": str(Path(metapl.__file__).parents[1]), "XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-c", "from metapl.cli.main import main; main(['--help'])"]
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    assert list(tmp_path.iterdir()) == []
