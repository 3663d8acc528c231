"""A short campaign of kills and disks; benchmarks/faults runs longer ones."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from faults import kills
from faults.scenes import SCENES

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def campaign(*words: str) -> tuple[dict, str]:
    """The sum of a campaign, and all that it printed.

    It starts commands by fork, which is cheap, and which a process that has computed something must not do.
    """
    command = [sys.executable, "-m", "faults", *words, "--fork"]
    done = subprocess.run(command, cwd=BENCHMARKS, capture_output=True, text=True, check=False)
    return json.loads(done.stdout.splitlines()[-1]), done.stdout + done.stderr


def test_a_killed_command_ends_with_the_same_bits():
    """`tests/runs/test_kill.py` kills training runs."""
    total, text = campaign("kills", "--number", "2", "--scenes", "data-select", "label", "predict")
    # On a busy machine a command may end before its kill comes.
    assert (total["number"] >= 1, total["failures"]) == (True, 0), text


def test_a_command_that_is_not_continued_is_a_failure(monkeypatch):
    """Else the campaign could not fail."""

    def kill_at_once(process, *_):
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return True

    monkeypatch.setattr(kills, "kill", kill_at_once)
    scene = dataclasses.replace(SCENES["data-select"], again=("--version",))
    monkeypatch.setitem(kills.SCENES, "data-select", scene)
    assert kills.campaign("data-select", 1, 1)["failures"] == ["differ: out/audit.csv, out/selection.csv"]


def test_full_and_read_only_disks_damage_clocks_and_two_writers_are_no_traceback():
    total, text = campaign("disks", "--scenes", "train-supervised")
    assert (total["number"] >= 3, total["failures"]) == (True, 0), text
