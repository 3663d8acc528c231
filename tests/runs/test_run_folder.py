"""What is fixed when a run begins; test_resume.py has what is refused later."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from metapl import config as configs
from metapl.runs import run_folder
from metapl.runs.run_folder import RunSettings
from metapl.schema import ConfigError


@pytest.fixture
def begun(tmp_path) -> RunSettings:
    begun = RunSettings(configs.Config(seed=3), (3, 4), 1, (tmp_path / "data",))
    run_folder.write(tmp_path, begun, {"checksum": "x"})
    return begun


def test_what_is_written_is_read(tmp_path, begun):
    assert run_folder.read(tmp_path) == (begun, [])
    environment = json.loads((tmp_path / "environment.json").read_text())
    assert {"metapl", "commit", "command", "platform", "versions", "xla_flags", "seeds_at_once"} <= environment.keys()
    assert json.loads((tmp_path / "split.json").read_text()) == {"checksum": "x"}


@pytest.mark.parametrize("change", [{"seeds": [3, 5]}, {"seeds_at_once": 0}, {"folder": 1}, {"versions": None}])
def test_what_a_run_is_cannot_be_changed_unnoticed(tmp_path, begun, change):
    file = tmp_path / "environment.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(ConfigError, match=r"environment\.json is missing or damaged"):
        run_folder.read(tmp_path)


def test_another_machine_is_told_of(tmp_path, begun, monkeypatch):
    described = run_folder.runtime.describe()
    monkeypatch.setattr("metapl.system.runtime.describe", lambda: described | {"devices": 8})
    _, (sentence,) = run_folder.read(tmp_path)
    assert "devices was 1, is 8" in sentence


def test_a_run_goes_on_where_it_began(tmp_path, begun, monkeypatch):
    here = Path.cwd()
    monkeypatch.chdir(tmp_path)
    with run_folder.where_it_began(tmp_path):
        assert Path.cwd() == here
    assert Path.cwd() == tmp_path


def test_a_commit_is_named_only_in_a_checkout_of_its_own(tmp_path, monkeypatch):
    found = run_folder.commit()
    assert found is None or re.fullmatch(r"[0-9a-f]{40}\+?", found)
    package = tmp_path / "venv" / "metapl" / "runs" / "folder.py"
    package.parent.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    monkeypatch.setattr(run_folder, "__file__", str(package))
    assert run_folder.commit() is None


def test_a_start_that_was_cut_off_can_be_given_again(tmp_path):
    """It has no config.toml yet, so there is nothing to resume and nothing to lose."""
    for name in ("lock", "environment.json", "split.json.new"):
        (tmp_path / name).write_text("")
    assert run_folder.claim(tmp_path) == tmp_path
    (tmp_path / "photo.jpg").write_text("")
    with pytest.raises(ConfigError, match="is not empty, and nothing in it is overwritten"):
        run_folder.claim(tmp_path)
