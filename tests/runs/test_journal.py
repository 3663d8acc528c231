"""metrics.jsonl goes on from a mark to the same bytes, and says so where it cannot."""

import json

import numpy as np
import pytest

from metapl.runs.journal import Journal, Mark
from metapl.schema import ConfigError


def some(step: int):
    return {"loss": np.float32([0.1 * step, 1 / 3]), "histogram": np.float32([[0.25, 0.75], [0.5, 0.5]])}


def write(journal: Journal, steps) -> None:
    for step in steps:
        journal.write((3, 4), 1, step, some(step))


@pytest.fixture
def whole(tmp_path):
    journal = Journal(tmp_path / "whole.jsonl")
    write(journal, [1, 2, 3])
    journal.close()
    return (tmp_path / "whole.jsonl").read_bytes()


def test_numbers_are_read_back_to_the_last_bit(whole):
    first = json.loads(whole.splitlines()[0])
    assert (first["seeds"], first["stage"], first["step"]) == ([3, 4], 1, 1)
    for name, values in some(1).items():
        np.testing.assert_array_equal(np.float32(first[name]), values)
    assert len(whole.splitlines()) == 3


def test_what_is_not_finite_is_null(tmp_path):
    journal = Journal(tmp_path / "a.jsonl")
    journal.write([0], 0, 1, {"loss": np.float32([np.nan]), "h": np.float32([np.inf])})
    journal.close()
    assert json.loads((tmp_path / "a.jsonl").read_text())["loss"] == [None]


@pytest.mark.parametrize("torn", [b"", b'{"seeds": [3', b'{"whole": "line"}\n{"torn'])
def test_it_goes_on_from_a_mark_to_the_same_bytes(tmp_path, whole, torn):
    path = tmp_path / "cut.jsonl"
    journal = Journal(path)
    write(journal, [1, 2])
    mark = journal.sync()
    journal.close()
    with path.open("ab") as file:
        file.write(torn)
    journal = Journal(path, mark)
    write(journal, [3])
    assert journal.sync() == Mark(len(whole), journal.sync().crc32c)
    journal.close()
    assert path.read_bytes() == whole


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b"x" + b[1:], lambda b: b""])
def test_lines_that_are_gone_or_changed_are_refused_and_left_alone(tmp_path, damage):
    path = tmp_path / "a.jsonl"
    journal = Journal(path)
    write(journal, [1, 2])
    mark = journal.sync()
    journal.close()
    damaged = damage(path.read_bytes())
    path.write_bytes(damaged)
    with pytest.raises(ConfigError, match="lines are missing or were changed"):
        Journal(path, mark)
    assert path.read_bytes() == damaged


def test_a_disk_that_takes_only_a_part_is_told_of(tmp_path):
    journal = Journal(tmp_path / "a.jsonl")
    write(journal, [1])

    class Nearly:
        def write(self, data: bytes) -> int:
            return len(data) - 1

        def close(self) -> None:
            pass

    journal._file.close()
    journal._file = Nearly()
    with pytest.raises(ConfigError, match=r"No space left on device.*metapl resume"):
        write(journal, [2])
