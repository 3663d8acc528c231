"""Files are read in parallel and come in their order; errors are answers; nothing runs far ahead."""

import threading
import time
from pathlib import Path

import numpy as np
import pytest

from metapl.data.reading.decode import BadImage
from metapl.data.reading.find_pictures import FoundPicture
from metapl.data.reading.read_ahead import read_ahead


def places(count: int):
    return (FoundPicture(Path(str(i))) for i in range(count))


def test_the_order_stays_whoever_is_done_first():
    def read(path: Path):
        time.sleep(0.002 * (int(path.name) % 3))
        return np.full((1, 1, 3), int(path.name), np.uint8)

    assert [int(one.picture[0, 0, 0]) for one in read_ahead(places(40), read, 4, 8)] == list(range(40))


def test_a_bad_file_is_told_of_in_its_place():
    def read(path: Path):
        if path.name == "1":
            raise BadImage("1", "broken")
        return np.zeros((1, 1, 3), np.uint8)

    found = list(read_ahead([*places(3), FoundPicture(Path("x"), "not there")], read, 2, 4))
    assert [one.problem for one in found] == ["", "broken", "", "not there"]
    assert [one.picture is None for one in found] == [False, True, False, True]


def test_no_more_than_asked_for_is_read_ahead_and_closing_ends_it():
    begun = []

    def read(path: Path):
        begun.append(path)
        return np.zeros((1, 1, 3), np.uint8)

    before = threading.active_count()
    reading = read_ahead(places(10**9), read, 2, 5)
    next(reading)
    time.sleep(0.05)
    assert len(begun) <= 6
    reading.close()
    assert threading.active_count() == before


def test_an_error_that_is_no_bad_picture_ends_it():
    def read(path: Path):
        raise ValueError("a fault of ours")

    with pytest.raises(ValueError, match="a fault of ours"):
        list(read_ahead(places(3), read, 2, 2))
