"""Where files are looked for."""

from pathlib import Path

import pytest

from metapl.data.reading import files
from metapl.data.reading.decode import DataError


def test_the_named_folder_comes_before_the_cache(tmp_path: Path) -> None:
    mine, cache = tmp_path / "mine", tmp_path / "cache"
    for folder in (mine, cache / "data"):
        folder.mkdir(parents=True)
    folders = files.search_folders(mine, cache)
    assert folders == (mine, cache / "data")
    assert files.search_folders(None, cache) == (cache / "data",)
    (cache / "data" / "a").write_bytes(b"1")
    assert files.find(folders, "a") == cache / "data" / "a"
    (mine / "a").write_bytes(b"1")
    assert files.find(folders, "a") == mine / "a"
    assert files.find(folders, "b") is None
    with pytest.raises(DataError, match="gone is not a folder"):
        files.search_folders(tmp_path / "gone", cache)


def test_named_files_are_taken_as_they_are_or_from_a_folder(tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text("x")
    assert files.locate("csv", str(tmp_path / "list.csv"), []) == tmp_path / "list.csv"
    assert files.locate("csv", "list.csv", [tmp_path]) == tmp_path / "list.csv"
    with pytest.raises(DataError, match=r"no other\.csv"):
        files.locate("csv", "other.csv", [tmp_path])


def test_empty_and_unreadable_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    for name in ("a", "gone"):
        with pytest.raises(DataError, match=str(tmp_path / name)):
            files.open_file(tmp_path / name)


def test_checksums(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"hello")
    with files.open_file(tmp_path / "a", "5d41402abc4b2a76b9719d911017c592") as file:
        assert file.read() == b"hello"
    with pytest.raises(DataError, match="5d41402abc4b2a76b9719d911017c592, but the official file has 00"):
        files.open_file(tmp_path / "a", "00")
