"""The files of a fit's folder."""

import dataclasses
from pathlib import Path

import pytest

from metapl.fit import folder
from metapl.fit.request import Request
from metapl.schema import ConfigError

REQUEST = Request(steps=150, mirror=False)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "data.json").write_text("{")
    with pytest.raises(ConfigError, match=r"data\.json cannot be read.*start again in another folder"):
        folder.read_json(tmp_path / "data.json")


def begin(out: Path, data: str) -> None:
    out.mkdir(parents=True)
    folder.write_request(out, data, REQUEST)


def test_without_a_folder_the_same_command_goes_on_with_what_it_began(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert folder.usual_folder("data", REQUEST) == Path("runs/fit")
    begin(Path("runs/fit"), "data")
    assert folder.usual_folder("data", REQUEST) == Path("runs/fit")
    assert folder.usual_folder("others", REQUEST) == Path("runs/fit-2")
    folder.write_json(Path("runs/fit/verdict.json"), {"finished": False})  # stopped by Ctrl-C
    assert folder.usual_folder("data", REQUEST) == Path("runs/fit")
    folder.write_json(Path("runs/fit/verdict.json"), {"finished": True})
    assert folder.usual_folder("data", REQUEST) == Path("runs/fit-2")
    more = dataclasses.replace(REQUEST, budget="31m")
    assert folder.usual_folder("data", more) == Path("runs/fit")  # more time continues it


def test_a_longer_fit_that_was_killed_is_not_finished_by_the_verdict_of_the_shorter_one(tmp_path):
    more = dataclasses.replace(REQUEST, budget="31m")
    folder.write_json(tmp_path / "verdict.json", {"finished": True, "budget": REQUEST.budget})
    folder.write_request(tmp_path, "data", more)
    assert folder.is_finished(tmp_path, REQUEST)
    assert not folder.is_finished(tmp_path, more)


def test_an_unfinished_fit_of_an_older_version_is_refused_and_a_finished_one_is_known(tmp_path):
    folder.write_json(tmp_path / "fit.json", {"format": 1, **folder.comparable("data", REQUEST)})
    assert not folder.is_finished(tmp_path, REQUEST)
    with pytest.raises(ConfigError, match="started by an older version"):
        folder.check_request(tmp_path, "data", REQUEST)
    folder.write_json(tmp_path / "model.json", {"format": 1, "run": "mpl", "temperature": 1.0})
    assert folder.is_finished(tmp_path, REQUEST)
