"""Pixels of more than 8 bits stay a picture."""

import numpy as np
import pytest

from metapl.data.reading.shades import by_format, by_own_range

STEPS = np.arange(12).reshape(3, 4)
WHOLE = [0, 23, 46, 70, 93, 116, 139, 162, 185, 209, 232, 255]  # twelve equal steps from black to white


@pytest.mark.parametrize(
    "grey",
    [
        STEPS.astype(np.float32) / 11,
        STEPS.astype(np.float32) * 1e-6,
        STEPS * 1e38 - 6e38,
        (STEPS * 300 - 500).astype(np.int16),
        (STEPS + 1_000_000_000).astype(np.int32),
        (STEPS * 390_000_000).astype(np.uint32),
        (STEPS * 390_000_000 - 2**31).astype(np.int32),
    ],
)
def test_a_picture_of_any_range_is_seen_whole(grey) -> None:
    assert by_own_range(grey).ravel().tolist() == WHOLE


@pytest.mark.parametrize("top", [11, 255, 4095, 8191])
def test_16_bits_that_use_few_shades_are_stretched(top: int) -> None:
    found = by_format(np.linspace(0, top, 12).astype(np.uint16))
    assert np.abs(found - np.linspace(0, 255, 12)).max() <= 12


@pytest.mark.parametrize("bottom", [0, 40_000])
def test_16_bits_are_read_as_their_format_says_where_they_are_used(bottom: int) -> None:
    grey = np.arange(bottom, bottom + 8193, 512, np.uint16)
    np.testing.assert_array_equal(by_format(grey), grey // 256)


def test_one_shade_of_16_bits_is_that_shade_and_of_others_grey() -> None:
    assert by_format(np.full((2, 2), 0x1234, np.uint16)).ravel().tolist() == [0x12] * 4
    assert by_own_range(np.full((2, 2), 0.5, np.float32)).ravel().tolist() == [128] * 4


def test_a_hot_pixel_does_not_make_the_others_black() -> None:
    grey = np.tile(np.arange(100, 200, dtype=np.float32), 100)
    usual = by_own_range(grey)
    grey[5], grey[7] = 1e9, -1e9
    assert np.array_equal(np.delete(by_own_range(grey), [5, 7]), np.delete(usual, [5, 7]))


def test_a_few_points_on_an_even_ground_are_seen() -> None:
    grey = np.zeros(10_000, np.float32)
    grey[:5] = 7
    assert by_own_range(grey)[:6].tolist() == [255] * 5 + [0]


def test_what_is_no_number_or_stands_for_nothing_is_black() -> None:
    grey = np.array([np.nan, np.inf, -np.inf, -9999, 3, 4], np.float32)
    assert by_own_range(grey, no_data=-9999).tolist() == [0, 0, 0, 0, 0, 255]
    with pytest.raises(ValueError, match="no pixel has a value"):
        by_own_range(grey[:4], no_data=-9999)
