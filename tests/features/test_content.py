"""A swapped picture is noticed, however many there are; names and labels do not matter."""

import dataclasses

import numpy as np
import pytest
from PIL import Image

from metapl import data
from metapl.data.reading.decode import DataError
from metapl.data.sources.features import Features
from metapl.data.sources.source import Files, InMemory
from metapl.data.splits import manifest
from metapl.features.content import digest
from metapl.system import runtime


def files(folder, contents):
    folder.mkdir()
    paths = []
    for number, content in enumerate(contents):
        paths.append(folder / f"{number}.png")
        paths[-1].write_bytes(content)
    return Files(tuple(paths), folder)


def test_every_byte_of_every_file_counts_and_names_do_not(tmp_path, monkeypatch):
    monkeypatch.setattr(manifest, "_SMALL", 0)  # as if the set were large: the manifest then samples
    middle = 200_000
    first = bytes(2 * middle)
    swapped = first[:middle] + b"x" + first[middle + 1 :]
    one = files(tmp_path / "one", [first, b"other"])
    assert digest(one) == digest(files(tmp_path / "renamed", [first, b"other"]))
    assert digest(one) != digest(files(tmp_path / "swapped", [swapped, b"other"]))
    assert digest(one) != digest(files(tmp_path / "turned", [b"other", first]))
    assert digest(one) != digest(files(tmp_path / "moved", [first + b"o", b"ther"]))


def test_pixels_in_memory_count():
    pixels = np.zeros((3, 4, 4, 1), np.uint8)
    changed = pixels.copy()
    changed[1, 2, 3] = 1
    assert digest(InMemory(pixels, "some")) == digest(InMemory(pixels.copy(), "other"))
    assert digest(InMemory(pixels, "some")) != digest(InMemory(changed, "some"))


def test_features_of_a_picture_that_was_swapped_for_one_of_the_same_size_are_computed_again(tmp_path, monkeypatch):
    monkeypatch.setattr(runtime, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(manifest, "_SMALL", 0)
    monkeypatch.setattr(manifest, "_EDGE", 16)  # the manifest does not see the middle of a file

    def write(name, grey):
        path = tmp_path / "pictures" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((8, 8), grey, np.uint8)).save(path)  # .bmp: all of one size

    for number in range(2):
        for name in ("train/cat", "train/dog", "val/cat", "val/dog"):
            write(f"{name}/{number}.bmp", 40 * number)
    source = Features(source=str(tmp_path / "pictures"), size=8, encoder="pixels", views=1)
    before = np.array(data.load(source, [0], ())[0].labeled[:, 0])
    write("train/dog/1.bmp", 200)
    after = np.array(data.load(source, [0], ())[0].labeled[:, 0])
    assert np.flatnonzero((before != after).any(1)).tolist() == [3]


def test_unlabelled_pictures_that_a_file_names_are_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(runtime, "cache_folder", lambda: tmp_path / "cache")
    rng = np.random.default_rng(0)
    pictures = {"images": rng.integers(0, 256, (4, 6, 6), np.uint8), "labels": np.arange(4) % 2}
    pictures |= {"test_images": pictures["images"][:2], "test_labels": pictures["labels"][:2]}
    unlabeled = rng.integers(0, 256, (9, 6, 6), np.uint8)
    np.savez(tmp_path / "some.npz", **pictures, unlabeled=unlabeled)
    (tmp_path / "rows.json").write_text('{"rows": [2, 5, 8]}')
    source = Features(source=str(tmp_path / "some.npz"), encoder="pixels", views=1, without=str(tmp_path / "rows.json"))
    used = np.asarray(data.load(source, [0], ())[0].unlabeled[:, 0], np.float32)
    kept = unlabeled[[0, 1, 3, 4, 6, 7]]
    np.testing.assert_allclose(used, kept.reshape(6, -1) / 255, atol=1e-3)
    fewer = np.asarray(data.load(dataclasses.replace(source, unlabeled=5), [0], ())[0].unlabeled[:, 0], np.float32)
    assert len(fewer) < 6  # those of the five that are not left out
    assert {row.tobytes() for row in fewer} <= {row.tobytes() for row in used}
    with pytest.raises(DataError, match=r"data\.without: .*missing\.json is not a JSON file with a list of rows"):
        data.load(dataclasses.replace(source, without=str(tmp_path / "missing.json")), [0], ())
