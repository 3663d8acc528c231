"""Stored views: what stands where, and a file that is continued to the same bits."""

import numpy as np
import pytest

from metapl.augment import views
from metapl.features import stored_views
from metapl.features.encoders import Pixels

PICTURES = np.random.default_rng(0).integers(0, 256, (10, 8, 8, 1), np.uint8)
AUGMENTATION = views.usual(mirrored=False, shift_pixels=1)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(stored_views, "BATCH", 4)


def compute(path, **changes):
    return stored_views.compute(path, {"format": 1}, PICTURES, Pixels(), AUGMENTATION, pairs=2, **changes)


def test_the_first_view_is_the_picture_the_next_are_weak_and_the_last_are_strong(tmp_path):
    stored = np.asarray(compute(tmp_path / "some.npy"), np.float32)
    assert stored.shape == (10, 5, 64)
    plain = PICTURES.reshape(10, -1) / 255
    np.testing.assert_allclose(stored[:, 0], plain, atol=1e-3)
    far = np.abs(stored - plain[:, None]).mean((0, 2))
    assert far[0] < 1e-3
    assert (far[1:] > 0.01).all()
    assert not np.array_equal(stored[:, 1], stored[:, 2])
    assert not np.array_equal(stored[:, 1], stored[:, 3])


class StopError(Exception):
    pass


def test_a_file_that_was_left_is_continued_to_the_same_bits(tmp_path):
    def stop(rows):
        if rows == 8:
            raise StopError

    whole = np.array(compute(tmp_path / "whole.npy"))
    with pytest.raises(StopError):
        compute(tmp_path / "left.npy", count=stop)
    counts = []
    again = compute(tmp_path / "left.npy", count=counts.append)
    assert counts == [8, 10]
    np.testing.assert_array_equal(again, whole)
    np.testing.assert_array_equal(compute(tmp_path / "left.npy"), whole)


def test_a_kill_after_the_last_batch_and_before_the_file_has_its_name_costs_nothing(tmp_path, monkeypatch):
    whole = np.array(compute(tmp_path / "whole.npy"))
    with monkeypatch.context() as patch:
        patch.setattr(stored_views.PredictionsFile, "finish", lambda file: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            compute(tmp_path / "left.npy")
    np.testing.assert_array_equal(compute(tmp_path / "left.npy"), whole)
