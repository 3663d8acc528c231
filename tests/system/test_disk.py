"""A file is the old one or the new one, never a half one; a full disk is told of in a sentence."""

import errno

import pytest

from metapl.schema import ConfigError
from metapl.system.disk import explaining_disk_errors, free, write_atomically


def test_a_file_is_replaced_as_a_whole(tmp_path, monkeypatch):
    write_atomically(tmp_path / "a", b"old")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space") as caught:
        write_atomically(tmp_path / "a", b"new")
    assert caught.value.filename == str(tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    monkeypatch.undo()
    write_atomically(tmp_path / "a", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"new"


def test_what_a_disk_refuses_becomes_a_sentence_that_says_how_to_go_on(tmp_path):
    error = OSError(errno.ENOSPC, "No space left on device", "there/x")
    words = f"there/x could not be written: No space .* free.*metapl resume {tmp_path}"
    with pytest.raises(ConfigError, match=words), explaining_disk_errors(tmp_path):
        raise error
    with (
        pytest.raises(ConfigError, match=r"free\); when that is fixed, begin again$"),
        explaining_disk_errors(tmp_path, "begin again"),
    ):
        raise error


def test_free_space_is_said_in_words(tmp_path):
    assert free(tmp_path).split()[1] in ("bytes", "kB", "MB", "GB", "TB")
    assert "unknown" in free(tmp_path / "nowhere")
