"""A pretrained encoder encodes a picture once, in whatever set of pictures it comes back."""

from types import SimpleNamespace

import numpy as np
import pytest

from metapl.features.remembered import Remembered

PICTURES = np.random.default_rng(0).integers(0, 256, (5, 4, 4, 3), np.uint8)


class Counting:
    """Stands for a frozen encoder: four features of a picture, and a list of how many pictures it was given."""

    def __init__(self, mean=0.0, factor=1.0, seen=None):
        self.seen = [] if seen is None else seen
        scale = {"mean": np.full(4, mean, np.float32), "factor": np.full(4, factor, np.float32)}
        self.encoder = SimpleNamespace(weights=SimpleNamespace(params={"scale": scale}))

    def __call__(self, pictures):
        self.seen.append(len(pictures))
        return pictures.mean((1, 2, 3), dtype=np.float32)[:, None] * np.arange(1, 5, dtype=np.float32)

    def scaled(self, mean, factor):
        return Counting(mean[0], factor[0], self.seen)


def test_only_new_pictures_are_encoded_and_scaled_as_asked(tmp_path):
    encode = Counting()
    first = Remembered(encode, tmp_path / "some" / "file.sqlite")(PICTURES[:3])
    np.testing.assert_array_equal(first, encode(PICTURES[:3]))
    encode.seen.clear()
    other = Counting(2.0, 0.5, encode.seen)  # another set of pictures has learnt another scale
    mixed = Remembered(other, tmp_path / "some" / "file.sqlite")(PICTURES[[4, 0, 2, 4]])
    assert encode.seen == [2]  # both copies of the new one
    np.testing.assert_allclose(mixed, (Counting()(PICTURES[[4, 0, 2, 4]]) - 2) / 2)
    assert Remembered(encode, tmp_path / "none.sqlite")(PICTURES[:0]).shape == (0, 4)


def test_pictures_with_the_same_bytes_and_another_shape_are_others(tmp_path):
    encode = Counting()
    remembered = Remembered(encode, tmp_path / "file.sqlite")
    remembered(PICTURES[:1])
    remembered(PICTURES[:1].reshape(1, 2, 8, 3))
    assert encode.seen == [1, 1]


@pytest.mark.parametrize("damage", [b"no database at all, but more than a hundred bytes" * 4, None])
def test_a_file_that_cannot_be_used_costs_time_only(tmp_path, damage):
    file = tmp_path / "file.sqlite"
    file.write_bytes(damage) if damage else file.mkdir()
    encode = Counting()
    for _ in range(2):
        np.testing.assert_array_equal(Remembered(encode, file)(PICTURES), Counting()(PICTURES))
    assert encode.seen == [5, 5]
