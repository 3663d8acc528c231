"""Batches from files: the same whoever decodes them, restarted exactly; what goes wrong is told and nothing hangs."""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from metapl.data.loading import files_loader, order, shuffle
from metapl.data.loading.files_loader import ProcessRows, Take, in_turn, stream
from metapl.data.reading.resize import centre_square
from metapl.data.sources.on_disk import OnDisk, Reading
from metapl.data.sources.source import DataError, Files, InMemory
from metapl.schema import ConfigError

READING = Reading(workers=0, threads=2)
WORDS = np.arange(shuffle.ROUNDS, dtype=np.uint32)

Batch = tuple[int, NDArray[np.uint8]]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """Eleven pictures of different sizes; the red channel holds ten times the picture's number."""
    paths = []
    for i in range(11):
        pixels = np.full((8 + i, 12, 3), (10 * i, 7, 255 - i), np.uint8)
        paths.append(tmp_path / f"{i:02}.png")
        Image.fromarray(pixels).save(paths[-1])
    return Files(tuple(paths))


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_loader, "SLICE", 3)


def shuffled(batch_size: int, words: order.Words = WORDS, rows: NDArray[np.int32] | None = None) -> order.Shuffled:
    return order.Shuffled(words, batch_size, 11 if rows is None else len(rows), rows)


def take(batches: Iterator[Batch], count: int) -> list[Batch]:
    taken = list(islice(batches, count))
    batches.close()  # type: ignore[attr-defined]
    return taken


def read(files: Files, batch_size: int, reading: Reading = READING, *, start_step: int = 0) -> list[Batch]:
    """Ten steps, from `start_step` on."""
    takes = [Take(files, shuffled(batch_size))]
    return list(stream(takes, 8, reading, lambda *batch: batch, steps=10, start_step=start_step))


def numbers(batch: Batch) -> list[int]:
    return (batch[1][:, 3, 3, 0] // 10).tolist()


def assert_same(left: list[Batch], right: list[Batch]) -> None:
    assert [step for step, _ in left] == [step for step, _ in right]
    for (_, one), (_, other) in zip(left, right, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("batch_size", [4, 11, 25])
def test_batches_hold_the_pictures_of_their_steps(files: Files, batch_size: int) -> None:
    batches = read(files, batch_size)
    assert [step for step, _ in batches] == list(range(10))
    for step, pictures in batches:
        assert pictures.shape == (batch_size, 8, 8, 3)
        assert pictures.dtype == np.uint8
        assert numbers((step, pictures)) == order.epoch_indices(WORDS, step, batch_size, 11).tolist()


@pytest.mark.parametrize("start", [1, 7])
def test_a_restart_goes_on_where_it_was(files: Files, start: int) -> None:
    assert_same(read(files, 4, start_step=start), read(files, 4)[start:])


def test_several_takes_stand_one_after_the_other(files: Files) -> None:
    """A slice may hold pictures of both; rows may be named, repeats included."""
    rows = np.array([3, 3, 9, 1], np.int32)
    takes = [Take(files, shuffled(4)), Take(files, shuffled(3, WORDS + np.uint32(1), rows))]
    for step, pictures in take(stream(takes, 8, READING, lambda *batch: batch, steps=5), 5):
        expected = [*shuffled(4)(step), *rows[order.epoch_indices(WORDS + np.uint32(1), step, 3, 4)]]
        assert numbers((step, pictures)) == expected


def test_threads_change_nothing(files: Files) -> None:
    assert_same(read(files, 4, Reading(0, threads=5)), read(files, 4, Reading(0, threads=1)))


def test_processes_share_the_same_batch(files: Files) -> None:
    def shared(share: ProcessRows) -> list[Batch]:
        takes = [Take(files, shuffled(6), share), Take(files, shuffled(3), share)]
        return take(stream(takes, 8, READING, lambda *batch: batch, steps=9), 4)

    whole, shares = shared(ProcessRows()), [shared(ProcessRows((i,), 3)) for i in range(3)]
    for step in range(4):
        for rows, each in ((slice(6), slice(2)), (slice(6, 9), slice(2, 3))):
            joined = np.concatenate([share[step][1][each] for share in shares])
            np.testing.assert_array_equal(joined, whole[step][1][rows])


def test_workers_change_nothing_ignore_signals_and_their_death_is_told(files: Files) -> None:
    """Their start takes seconds, so one test asks for all of it."""
    steps = stream([Take(files, shuffled(4))], 8, Reading(workers=2), lambda *batch: batch, steps=10**6, start_step=3)
    assert_same(list(islice(steps, 7)), read(files, 4)[3:])
    workers = multiprocessing.active_children()
    assert len(workers) == 2
    for worker in workers:
        assert worker.pid is not None
        for number in (signal.SIGINT, signal.SIGTERM):  # as Ctrl-C and schedulers send them to the whole group
            os.kill(worker.pid, number)
    assert [step for step, _ in islice(steps, 20)] == list(range(10, 30))
    os.kill(workers[1].pid or 0, signal.SIGKILL)
    with pytest.raises(DataError, match=r"reads pictures crashed or was killed.*--data\.workers 0"):
        list(steps)
    assert not multiprocessing.active_children()


def test_a_worker_ends_with_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    ended: list[int] = []
    parent = type("Parent", (), {"sentinel": reader})
    monkeypatch.setattr(files_loader, "parent_process", lambda: parent)
    monkeypatch.setattr(os, "_exit", ended.append)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    files_loader._begin_worker(0, 1)
    time.sleep(0.05)
    assert not ended
    os.close(writer)  # as the system does when the parent dies
    while not ended:
        time.sleep(0.01)
    os.close(reader)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:40])


@pytest.mark.parametrize("spoil", [truncate, Path.unlink, lambda path: path.write_bytes(b"")])
def test_a_bad_file_is_named(files: Files, spoil: Callable[[Path], object]) -> None:
    batches = stream([Take(files, shuffled(4))], 8, READING, lambda *batch: batch, steps=10**6)
    next(batches)
    spoil(files.paths[4])
    with pytest.raises(DataError, match=r"04\.png: .*put the picture back as it was, then metapl resume"):
        list(batches)


def test_pictures_of_several_sizes_need_a_size(files: Files) -> None:
    batches = stream([Take(files, shuffled(4))], 0, READING, lambda *batch: batch, steps=1)
    with pytest.raises(DataError, match=r"sizes, from .* give a size"):
        next(batches)


def test_what_cannot_be_shared_or_read_is_refused(files: Files) -> None:
    def begin(files: Files, share: ProcessRows = files_loader.ALL_ROWS) -> None:
        stream([Take(files, shuffled(4), share)], 8, READING, lambda *batch: batch, steps=1)

    with pytest.raises(ConfigError, match="shared evenly by 3"):
        begin(files, ProcessRows((0,), 3))
    with pytest.raises(ConfigError, match="no pictures"):
        begin(Files(()))


def test_all_pictures_in_turn(files: Files) -> None:
    found = list(in_turn(OnDisk(files, 8, READING), 4))
    assert [len(some) for some in found] == [4, 4, 3]
    assert (np.concatenate(found)[:, 0, 0, 0] // 10).tolist() == list(range(11))
    assert [len(some) for some in in_turn(OnDisk(files, 8, READING), 4, first=8)] == [3]
    assert [some.tolist() for some in in_turn(np.arange(5), 2, first=2)] == [[2, 3], [4]]
    assert list(in_turn(OnDisk(Files(()), 8, READING), 4)) == []


def test_what_stands_for_an_array_looks_like_one(files: Files) -> None:
    pictures = OnDisk(files, 8, READING)
    assert (len(pictures), pictures.shape, pictures.dtype) == (11, (11, 8, 8, 3), np.uint8)
    np.testing.assert_array_equal(pictures[9:], np.stack([centre_square(files[i], 8) for i in (9, 10)]))


def test_centre_square_takes_the_centre() -> None:
    picture = np.zeros((4, 10, 3), np.uint8)
    picture[:, 3:7] = 200
    assert (centre_square(picture, 4) == 200).all()
    assert (centre_square(picture, 2) == 200).all()
    assert (centre_square(picture.transpose(1, 0, 2), 4) == 200).all()


def test_centre_square_leaves_what_fits_and_keeps_grey() -> None:
    picture = np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8)
    assert centre_square(picture, 8) is picture
    assert centre_square(picture[..., :1], 5).shape == (5, 5, 1)
    with pytest.raises(ConfigError, match="1 or 3 channels, got 2"):
        centre_square(picture[..., :2], 4)


def test_pictures_in_memory_stream_as_well() -> None:
    """Without workers: there is nothing to decode."""
    images = InMemory(np.arange(3 * 8 * 8, dtype=np.uint8).reshape(3, 8, 8, 1), "grey ")
    batches = stream([Take(images, order.InTurn(3, 3))], 0, Reading(workers=2), lambda _, pictures: pictures, steps=1)
    np.testing.assert_array_equal(next(batches), images.array)
    assert not multiprocessing.active_children()
    batches.close()
