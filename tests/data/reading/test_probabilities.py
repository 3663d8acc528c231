"""Files of probabilities that are not what they should be: one sentence with the file's name, never a traceback."""

from pathlib import Path

import numpy as np
import pytest

from metapl.data.reading import probabilities
from metapl.schema import ConfigError


def test_a_csv_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "p.csv"
    file.write_bytes("\ufeffpath,p0,p1\né.png,0.25,0.75\n".encode())
    assert probabilities.shape(file).classes == 2
    assert list(probabilities.names(file, None)) == ["é.png"]
    np.testing.assert_array_equal(next(probabilities.chunks(file)), [[0.25, 0.75]])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"path,p0,p1\n\xff.png,0.5,0.5\n", "not UTF-8 text"),
        (b"\xff\xfe", "not UTF-8 text"),
        (b"path,p0,p1\n" + b"x" * 200_000 + b",0.5,0.5\n", "field larger"),
        (b"path,p0,p1\na.png,0.5\n", "not have 2 numbers"),
        (b"path,p0\na.png,nan\n", "probabilities are 0 to 1"),
        (b"", "the first line must be"),
    ],
)
def test_a_bad_csv(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "p.csv").write_bytes(content)
    with pytest.raises(ConfigError, match=words):
        list(probabilities.chunks(tmp_path / "p.csv"))


def test_a_names_file_that_is_no_text(tmp_path: Path) -> None:
    np.save(tmp_path / "p.npy", np.full((1, 2), 0.5, np.float32))
    (tmp_path / "names.txt").write_bytes(b"\xff\n")
    with pytest.raises(ConfigError, match=r"names\.txt: not UTF-8 text"):
        list(probabilities.names(tmp_path / "p.npy", tmp_path / "names.txt"))


def test_an_archive_without_an_array(tmp_path: Path) -> None:
    np.savez(tmp_path / "p.npz")
    with pytest.raises(ConfigError, match="it has no array"):
        probabilities.shape(tmp_path / "p.npz")
