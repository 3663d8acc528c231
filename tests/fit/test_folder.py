"""The files of a fit's folder."""

import json
from pathlib import Path

import pytest

from metapl.fit import folder
from metapl.fit.request import Request
from metapl.schema import ConfigError

REQUEST = Request(steps=150, mirror=False)


@pytest.mark.parametrize("key", ["labeled_counts", "train_counts"])
def test_facts_of_this_version_and_of_0_1_0_are_read(key: str) -> None:
    summary = folder.summary({"side": 8, key: [5, 2], "unlabeled": 7})
    assert (summary.side, summary.class_counts.tolist(), summary.unlabeled) == (8, [5, 2], 7)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "data.json").write_text("{")
    with pytest.raises(ConfigError, match=r"data\.json cannot be read.*begin again in another folder"):
        folder.read_json(tmp_path / "data.json")


def test_without_a_folder_the_same_command_goes_on_with_what_it_began(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert folder.usual_folder("data", REQUEST) == Path("runs/fit")
    Path("runs/fit").mkdir(parents=True)
    noted = folder.comparable("data", REQUEST)
    Path("runs/fit/fit.json").write_text(json.dumps(noted), "utf-8")
    assert folder.usual_folder("data", REQUEST) == Path("runs/fit")
    assert folder.usual_folder("others", REQUEST) == Path("runs/fit-2")
    Path("runs/fit/model.json").write_text("{}", "utf-8")
    assert folder.usual_folder("data", REQUEST) == Path("runs/fit-2")
