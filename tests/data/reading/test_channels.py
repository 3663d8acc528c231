"""Turning channels in place."""

import numpy as np
import pytest

from metapl.data.reading import channels


@pytest.mark.parametrize("count", [0, 1, 256, 600])
@pytest.mark.parametrize("transposed", [False, True])
def test_agrees_with_numpy_and_stays_in_place(count: int, transposed: bool) -> None:
    images = np.random.RandomState(0).randint(0, 256, (count, 3, 4, 5)).astype(np.uint8)
    wanted = images.transpose(0, 3, 2, 1) if transposed else images.transpose(0, 2, 3, 1)
    wanted = wanted.copy()
    found = channels.to_last(images, transposed)
    np.testing.assert_array_equal(found, wanted)
    assert count == 0 or np.shares_memory(found, images)


def test_what_cannot_be_written_to_is_copied() -> None:
    images = np.frombuffer(bytes(range(60)), np.uint8).reshape(1, 3, 4, 5)
    np.testing.assert_array_equal(channels.to_last(images), images.transpose(0, 2, 3, 1))
