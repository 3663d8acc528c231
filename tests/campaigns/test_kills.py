"""A short campaign of kills; benchmarks/faults runs longer ones."""

import dataclasses

import pytest
from faults import disks, kills
from faults.scenes import SCENES


@pytest.mark.parametrize("name", ["data-select", "label", "predict", "train-mpl"])
def test_a_killed_command_ends_with_the_same_bits(name):
    assert kills.campaign(name, 2, 0)["failures"] == []


def test_a_command_that_is_not_continued_is_a_failure(monkeypatch):
    """Else the campaign could not fail."""
    scene = dataclasses.replace(SCENES["predict"], again=("--version",))
    monkeypatch.setitem(kills.SCENES, "predict", scene)
    assert kills.campaign("predict", 1, 1)["failures"] != []


def test_full_and_read_only_disks_damage_and_two_writers_are_no_traceback():
    assert disks.campaign("train-supervised")["failures"] == []
