"""What becomes of what the guards find."""

import json

import numpy as np
import pytest

from metapl.guards.keeper import Alarm, StoppedError
from metapl.guards.say import guarding, note

ALARM = Alarm("mask", "warn", 0, 500, (3,), 400, "all are left out. Try: a lower threshold")


class Keeper:
    def __init__(self, level):
        self.level = level

    def read_report(self, stage, step, numbers):
        return [ALARM._replace(level=self.level)]


def test_a_warning_is_said_and_kept(tmp_path):
    said, log = [], tmp_path / "warnings.jsonl"
    guarding(Keeper("warn"), said.append, log)(0, 500, {"mask_rate": np.zeros(1)})
    (sentence,) = said
    assert sentence.startswith("warning at step 500: all are left out.")
    assert "--guards.mask off" in sentence
    assert json.loads(log.read_text())["seeds"] == [3]


def test_a_stop_ends_the_run_and_says_where_to_go_back_to(tmp_path):
    listen = guarding(Keeper("stop"), print, tmp_path / "w", lambda steps: f"The last good checkpoint is {steps}.")
    with pytest.raises(StoppedError, match=r"all are left out.*The last good checkpoint is 400\."):
        listen(0, 500, {})
    assert (tmp_path / "w").exists()


def test_a_session_after_it_keeps_a_line_once_and_a_full_disk_ends_nothing(tmp_path):
    for _ in range(2):
        note(ALARM, tmp_path / "log")
    note(ALARM._replace(step=600), tmp_path / "log")
    assert len((tmp_path / "log").read_text().splitlines()) == 2
    note(ALARM, tmp_path / "no folder" / "log")
