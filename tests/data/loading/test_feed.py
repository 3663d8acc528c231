"""Batches from files are those that the device's loader gathers, from whichever step on."""

import threading
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl.data.loading import feed, loader
from metapl.data.loading.feed import PredictionsOnDisk, Sampling
from metapl.data.sources.dataset import Dataset
from metapl.data.sources.on_disk import OnDisk, Reading
from metapl.data.sources.source import Files
from tests.data.pictures import noise, save

KEY = jax.random.key(7)
STEPS = 6


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    place = tmp_path_factory.mktemp("pictures")
    paths = tuple(save(place, f"{i}.png", noise(i, 8)) for i in range(20))
    parts = [OnDisk(Files(some), 0, Reading()) for some in (paths[:7], paths[7:], paths[:1])]
    labels, truth = np.arange(7, dtype=np.int32), np.arange(-1, 12, dtype=np.int32)
    return Dataset(parts[0], labels, parts[1], parts[2], labels[:1], ("a", "b", "c"), truth=truth)


@pytest.fixture(scope="module")
def resident(on_disk: Dataset) -> loader.Resident:
    return loader.resident(on_disk._replace(labeled=on_disk.labeled[:], unlabeled=on_disk.unlabeled[:]))


def stored(rows: list[int] | None) -> PredictionsOnDisk:
    draw = np.random.default_rng(0)
    told = (draw.dirichlet(np.ones(3), count).astype(np.float16) for count in (7, 13))
    return PredictionsOnDisk(*told, None if rows is None else np.array(rows, np.int32))


@pytest.mark.parametrize(
    ("sizes", "predictions", "first"),
    [((3, 5), None, 0), ((7, 30), None, 4), ((2, 3), stored(None), 1), ((4, 4), stored([9, 2, 2, 11, 5]), 3)],
)
def test_files_and_the_device_give_the_same_batches(
    on_disk: Dataset,
    resident: loader.Resident,
    sizes: tuple[int, int],
    predictions: PredictionsOnDisk | None,
    first: int,
) -> None:
    """Batches that are small and that hold several epochs, all rows and chosen ones, from the start and from later."""
    expected_answers = predictions and loader.PredictionsOnDevice(
        *(part if part is None else jnp.asarray(part) for part in predictions)
    )
    with feed.from_files(on_disk, KEY, Sampling(*sizes, STEPS), first, predictions) as read:
        assert read.longest == 1
        for step in range(first, STEPS):
            found = read.at(step)
            assert found is read.at(step)
            expected = loader.batch(resident, KEY, jnp.uint32(step), *sizes, expected_answers)
            jax.tree.map(np.testing.assert_array_equal, loader.batch_of(found, jnp.uint32(step)), expected)
        with pytest.raises(ValueError, match="step 5 or the next one can be read, not 3"):
            read.at(3)


def test_labelled_pictures_in_the_place_of_the_unlabelled_ones(on_disk: Dataset, resident: loader.Resident) -> None:
    with feed.from_files(feed.labeled_only(on_disk), KEY, Sampling(3, 5, STEPS)) as read:
        expected = loader.batch(loader.labeled_only(resident), KEY, jnp.uint32(0), 3, 5)
        jax.tree.map(np.testing.assert_array_equal, loader.batch_of(read.at(0), jnp.uint32(0)), expected)


def test_unlabelled_pictures_that_no_one_looks_at_are_not_read(on_disk: Dataset, resident: loader.Resident) -> None:
    missing = OnDisk(Files((Path("missing.png"),) * 13), 0, Reading())
    sampling = Sampling(3, 5, STEPS, uses_unlabeled=False)
    with feed.from_files(on_disk._replace(unlabeled=missing), KEY, sampling, 2) as read:
        found, expected = loader.batch_of(read.at(2), jnp.uint32(2)), loader.batch(resident, KEY, jnp.uint32(2), 3, 5)
    np.testing.assert_array_equal(found.labeled, expected.labeled)
    np.testing.assert_array_equal(found.labels, expected.labels)
    assert found.unlabeled.shape == expected.unlabeled.shape
    assert not found.unlabeled.any()


def test_data_on_the_device_serve_all_steps(resident: loader.Resident) -> None:
    fed = feed.resident(resident, None)
    assert fed.at(0) is fed.at(10**6) is resident
    assert fed.longest > 10**9


def test_reading_begins_nothing_that_outlives_it(on_disk: Dataset) -> None:
    before = threading.active_count()
    with feed.from_files(on_disk, KEY, Sampling(3, 5, 10**6)) as read:
        read.at(0)
        assert threading.active_count() > before
    deadline = time.monotonic() + 20
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)  # threads that were reading may end what they were at
    assert threading.active_count() <= before


def test_memory_is_not_touched_by_what_is_on_disk(tmp_path: Path) -> None:
    """Only what is asked for is opened."""
    save(tmp_path, "0.png", noise(0, 8))
    pictures = OnDisk(Files((tmp_path / "0.png", tmp_path / "missing.png")), 0, Reading())
    assert pictures.shape == (2, 8, 8, 3)


def test_balanced_batches_are_the_same_from_files(on_disk: Dataset) -> None:
    uneven = on_disk._replace(labels=np.array([0, 0, 0, 0, 1, 1, 2], np.int32))
    data = loader.resident(uneven._replace(labeled=uneven.labeled[:], unlabeled=uneven.unlabeled[:]), balanced=True)
    with feed.from_files(uneven, KEY, Sampling(3, 5, STEPS, balanced=True)) as read:
        for step in range(STEPS):
            found = loader.batch_of(read.at(step), jnp.asarray(step))
            expected = loader.batch(data, KEY, jnp.asarray(step), 3, 5, balanced=True)
            np.testing.assert_array_equal(found.labels, expected.labels)
            np.testing.assert_array_equal(found.labeled, expected.labeled)


@pytest.mark.parametrize("rows", [None, [9, 2, 2, 11, 5]])
def test_indices_say_which_examples_a_batch_holds_from_files_and_on_the_device(on_disk, resident, rows) -> None:
    predictions = stored(rows)
    on_device = loader.PredictionsOnDevice(*(part if part is None else jnp.asarray(part) for part in predictions))
    with feed.from_files(on_disk, KEY, Sampling(3, 4, STEPS, indices=True), 0, predictions) as read:
        for step in range(STEPS):
            batch = loader.batch_of(read.at(step), jnp.uint32(step))
            expected = loader.batch(resident, KEY, jnp.uint32(step), 3, 4, on_device, indices=True)
            jax.tree.map(np.testing.assert_array_equal, batch, expected)
            assert (batch.indices.totals.labeled, batch.indices.totals.unlabeled) == (7, 13)
            np.testing.assert_array_equal(batch.labeled, resident.labeled[batch.indices.labeled])
            np.testing.assert_array_equal(batch.unlabeled, resident.unlabeled[batch.indices.unlabeled])
            assert batch.indices.unlabeled.dtype == expected.indices.unlabeled.dtype == jnp.int32
