"""Nothing that a user has is overwritten."""

import pytest

from metapl.folders import claim, next_free
from metapl.schema import ConfigError


def test_a_new_or_empty_folder_is_taken(tmp_path):
    assert claim(tmp_path / "a" / "b").is_dir()
    assert claim(tmp_path / "a" / "b") == tmp_path / "a" / "b"


def test_a_folder_with_something_in_it_is_refused(tmp_path):
    (tmp_path / "mine.txt").write_text("precious")
    with pytest.raises(ConfigError, match="is not empty"):
        claim(tmp_path)
    assert (tmp_path / "mine.txt").read_text() == "precious"
    assert len(list(tmp_path.iterdir())) == 1


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
