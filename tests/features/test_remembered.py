"""A pretrained encoder encodes a picture once, in whatever set of pictures it comes back."""

from types import SimpleNamespace

import numpy as np
import pytest

from metapl.data.sources.features import Features
from metapl.features import encoders, load
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


def test_it_says_how_many_pictures_it_knows(tmp_path):
    remembered = Remembered(Counting(), tmp_path / "file.sqlite")
    assert remembered.known(PICTURES) == 0
    remembered(PICTURES[:3])
    assert remembered.known(PICTURES[1:]) == 2


def test_pictures_whose_features_are_kept_are_not_counted_as_new(tmp_path, monkeypatch):
    config = Features(encoder="efficientnet_lite0")
    prepared = load.Prepared(config, None, {"unlabeled": PICTURES}, tmp_path, "", Counting(), None, print)
    remembered = Remembered(Counting(), tmp_path / "file.sqlite")
    monkeypatch.setattr(encoders, "remembering", lambda *_: remembered)
    assert load.new_share(prepared, "unlabeled") == 1
    remembered(PICTURES[:2])
    assert load.new_share(prepared, "unlabeled") == pytest.approx(3 / 5)
    monkeypatch.setattr(encoders, "remembering", lambda encode, *_: encode)  # patches: there is no such file
    assert load.new_share(prepared, "unlabeled") == 1
    assert not load.is_stored(prepared, "unlabeled", only_eval_view=True)
    (tmp_path / "unlabeled-eval.npy").touch()
    assert load.is_stored(prepared, "unlabeled", only_eval_view=True)
    assert not load.is_stored(prepared, "unlabeled")


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
