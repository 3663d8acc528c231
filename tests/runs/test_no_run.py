"""Folders that hold no runs are said to be what they are."""

import os

import pytest

from metapl.cli import sweep
from metapl.runs import no_run


def test_the_newest_tables_of_a_sweep_are_named(tmp_path):
    (tmp_path / sweep.DATABASE).touch()
    assert f"its tables are in {tmp_path}/report, and metapl train {tmp_path}/report/best-" in no_run.explain(
        [tmp_path]
    )
    for age, name in enumerate(("report", "report-3", "report-2", "reporter")):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (age, age))
    assert f"in {tmp_path}/report-2," in no_run.explain([tmp_path])


def test_the_report_of_a_sweep_is_known_by_itself(tmp_path):
    (tmp_path / "sweep.json").touch()
    assert f"its tables are in {tmp_path}," in no_run.explain([tmp_path])


def test_the_page_of_the_demo_is_named(tmp_path):
    (tmp_path / "moons").mkdir()
    (tmp_path / "moons" / "two_moons.html").touch()
    assert f"open {tmp_path}/moons/two_moons.html" in no_run.explain(
        [tmp_path / "nowhere", tmp_path, tmp_path / "moons"]
    )


@pytest.mark.parametrize("name", ["nowhere", ".", "x" * 300])
def test_of_others_nothing_is_said(tmp_path, name):
    assert no_run.explain([tmp_path / name]) == ""
