"""Nothing that a user has is overwritten."""

import errno
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from metapl.schema import ConfigError
from metapl.system.folders import all_or_nothing, claim, next_free, where_run_began


def test_a_new_or_empty_folder_is_taken(tmp_path):
    assert claim(tmp_path / "a" / "b").is_dir()
    assert claim(tmp_path / "a" / "b") == tmp_path / "a" / "b"


def test_a_folder_with_something_in_it_is_refused(tmp_path):
    (tmp_path / "mine.txt").write_text("precious")
    with pytest.raises(ConfigError, match="is not empty"):
        claim(tmp_path)
    assert (tmp_path / "mine.txt").read_text() == "precious"
    assert len(list(tmp_path.iterdir())) == 1


def test_what_a_killed_start_has_left_is_no_hindrance(tmp_path):
    (tmp_path / "x.json.new").write_text("{")
    (tmp_path / ".metapl-write-test").touch()
    assert claim(tmp_path, ["x.json.new"]) == next_free(tmp_path, ["x.json.new"]) == tmp_path
    with pytest.raises(ConfigError, match="is not empty"):
        claim(tmp_path)
    (tmp_path / "mine.txt").touch()
    with pytest.raises(ConfigError, match="is not empty"):
        claim(tmp_path, ["x.json.new"])


def test_a_full_disk_is_noticed_before_anything_is_done(tmp_path, monkeypatch):
    def full(path, content):
        path.touch()
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    with pytest.raises(ConfigError, match=r"cannot be used as a folder to write to: No space left"):
        claim(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be used as a folder"):
        claim(tmp_path / "file")


def test_the_next_free_name_is_found(tmp_path):
    assert next_free(tmp_path / "demo") == tmp_path / "demo"
    for name in ("demo", "demo-2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "summary.json").touch()
    assert next_free(tmp_path / "demo") == tmp_path / "demo-3"


def write(out: Path, text: str, error: Exception | None = None) -> None:
    with all_or_nothing(out) as place:
        (place / "a.csv").write_text(text)
        assert list(out.iterdir()) == []
        if error:
            raise error


def test_a_folder_gets_all_files_or_none(tmp_path):
    out = claim(tmp_path / "out")
    with pytest.raises(ConfigError, match="a wrong word"):
        write(out, "half", ConfigError("a wrong word"))
    assert [list(tmp_path.iterdir()), list(out.iterdir())] == [[out], []]
    write(out, "whole")
    assert [list(tmp_path.iterdir()), (out / "a.csv").read_text()] == [[out], "whole"]


def test_the_first_of_two_that_write_a_folder_wins(tmp_path):
    out = claim(tmp_path / "out")
    with ExitStack() as stack:
        place = stack.enter_context(all_or_nothing(out))
        (place / "a.csv").write_text("second")
        write(out, "first")
        assert (place / "a.csv").exists(), "it was taken for an abandoned one"
        with pytest.raises(ConfigError, match="is not empty"):
            stack.close()
    assert [list(tmp_path.iterdir()), (out / "a.csv").read_text()] == [[out], "first"]


KILLED = """
import os, signal, sys
from pathlib import Path
from metapl.system.folders import all_or_nothing
with all_or_nothing(Path(sys.argv[1])) as place:
    (place / "a.csv").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_command_has_written_is_deleted_by_the_next_one(tmp_path):
    out = claim(tmp_path / "out")
    subprocess.run([sys.executable, "-c", KILLED, out], check=False)
    assert len(list(tmp_path.iterdir())) == 2
    write(claim(out), "whole")
    assert [list(tmp_path.iterdir()), (out / "a.csv").read_text()] == [[out], "whole"]


def test_a_folder_that_cannot_be_replaced_is_written_to(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with all_or_nothing(Path()) as place:
        assert place == tmp_path


def test_work_goes_on_where_a_run_began_and_its_data_are_looked_for_there_last(tmp_path, monkeypatch):
    (tmp_path / "began").mkdir()
    monkeypatch.chdir(tmp_path)
    environment = {"folder": str(tmp_path / "began"), "data_folders": ["/theirs", 3]}
    with where_run_began(environment, [Path("mine")]) as places:
        assert Path.cwd() == tmp_path / "began"
        assert places == [tmp_path / "mine", Path("/theirs")]
    assert Path.cwd() == tmp_path
    for odd in ({}, {"folder": 3, "data_folders": "x"}, {"folder": str(tmp_path / "gone")}):
        with where_run_began(odd) as places:
            assert Path.cwd() == tmp_path
            assert places == []
