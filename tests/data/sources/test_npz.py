"""Arrays in .npz files."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from metapl.data.reading.decode import DataError
from metapl.data.sources.npz import Npz, read
from metapl.data.sources.source import InMemory, Source

IMAGES = np.random.RandomState(0).randint(0, 256, (4, 5, 6, 3)).astype(np.uint8)
PLAIN = {"images": IMAGES, "labels": np.array([0, 2, -1, 1])}


def load(folder: Path, arrays: dict[str, np.ndarray], **settings: float) -> Source:
    np.savez_compressed(folder / "pictures.npz", **arrays)
    return read(Npz(**settings), [folder])


def test_every_array(tmp_path: Path) -> None:
    test = {"test_images": IMAGES[:2], "test_labels": np.array([1, 1], np.uint8)}
    val = {"val_images": IMAGES[2:], "val_labels": np.array([0, 2], np.int64)}
    names = {"class_names": np.array(["a", "b", "c"])}
    source = load(tmp_path, PLAIN | test | val | names | {"unlabeled": IMAGES[:1]})
    train = source.parts["train"].images
    assert isinstance(train, InMemory)
    np.testing.assert_array_equal(train.array, IMAGES)
    assert {part: found.labels.tolist() for part, found in source.parts.items()} == {
        "train": [0, 2, -1, 1],
        "val": [0, 2],
        "test": [1, 1],
        "unlabeled": [-1],
    }
    assert source.class_names == ("a", "b", "c")


def test_grey_pictures_and_no_class_names(tmp_path: Path) -> None:
    source = load(tmp_path, {"images": IMAGES[..., 0], "labels": PLAIN["labels"]})
    assert source.parts["train"].images[0].shape == (5, 6, 1)
    assert source.class_names == ("0", "1", "2")


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"images": IMAGES.astype(np.float32)}, r"images must be bytes .* float32 \[4, 5, 6, 3\]"),
        ({"images": IMAGES[..., :2]}, "images must be bytes"),
        ({"labels": np.zeros(3, int)}, "labels must be 4 whole numbers"),
        ({"labels": np.zeros(4)}, "labels must be 4 whole numbers"),
        ({"labels": np.array([0, 1, -2, 0])}, "labels has numbers that are not labels"),
        ({"labels": np.array([-1, -1, -1, -1])}, "highest label is -1"),
        ({"test_images": IMAGES}, "no array test_labels"),
        (
            {"test_images": IMAGES, "test_labels": np.array([0, 1, -1, 0])},
            "test_labels has numbers that are not labels",
        ),
        ({"unlabeled": IMAGES[:, :4]}, "pictures must have one size"),
        ({"class_names": np.array(["a"])}, "class_names has 1 names"),
        ({"pictures": IMAGES}, "has an array 'pictures'; it takes class_names, images"),
    ],
)
def test_wrong_arrays_are_named(tmp_path: Path, changed: dict[str, np.ndarray], reason: str) -> None:
    with pytest.raises(DataError, match=rf"pictures\.npz.* {reason}"):
        load(tmp_path, PLAIN | changed)


def test_pickles_inside_are_never_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="Object arrays cannot be loaded"):
        load(tmp_path, PLAIN | {"labels": np.array([{}, {}, {}, {}])})


def test_bombs_are_refused_before_they_unpack(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"unpacks to .* more than max_gigabytes \(0\.01\)"):
        load(tmp_path, PLAIN | {"unlabeled": np.zeros((20_000, 32, 32, 1), np.uint8)}, max_gigabytes=0.01)


def test_a_header_that_claims_too_much(tmp_path: Path) -> None:
    member = io.BytesIO()
    np.lib.format.write_array_header_1_0(member, {"descr": "|u1", "fortran_order": False, "shape": (10**9, 99, 99, 3)})
    with zipfile.ZipFile(tmp_path / "pictures.npz", "w") as archive:
        archive.writestr("images.npy", member.getvalue())
    with pytest.raises(DataError, match="more than max_gigabytes"):
        read(Npz(), [tmp_path])


@pytest.mark.parametrize("kept", [0, 10, 300])
def test_damaged_files_are_named(tmp_path: Path, kept: int) -> None:
    np.savez(tmp_path / "whole.npz", **PLAIN)
    (tmp_path / "pictures.npz").write_bytes((tmp_path / "whole.npz").read_bytes()[:kept])
    with pytest.raises(DataError, match=r"pictures\.npz"):
        read(Npz(), [tmp_path])


def test_a_label_beyond_all_pictures_is_an_error_not_a_long_wait(tmp_path: Path) -> None:
    labels = np.array([0, 10**9], np.int64)
    np.savez(tmp_path / "pictures.npz", images=np.zeros((2, 4, 4, 3), np.uint8), labels=labels)
    with pytest.raises(DataError, match="the highest label is 1000000000, more than the number of pictures"):
        read(Npz(), [tmp_path])


def test_pictures_without_a_pixel_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "pictures.npz", images=np.zeros((2, 0, 4, 3), np.uint8), labels=np.array([0, 1]))
    with pytest.raises(DataError, match="images must be bytes"):
        read(Npz(), [tmp_path])


def test_a_damaged_archive_is_named_wherever_the_damage_is(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "good.npz", images=np.zeros((20, 4, 4, 3), np.uint8), labels=np.arange(20) % 2)
    good = (tmp_path / "good.npz").read_bytes()
    draw, errors = np.random.default_rng(0), []
    for _ in range(150):
        bad = bytearray(good)
        for place in draw.integers(0, len(good), 3):
            bad[place] ^= int(draw.integers(1, 256))
        (tmp_path / "pictures.npz").write_bytes(bytes(bad))
        try:
            train = read(Npz(), [tmp_path]).parts["train"]
        except DataError as error:  # anything else would be a traceback
            errors.append(str(error))
        else:  # the damage is in bytes that do not matter, such as a file's date
            assert not np.any(train.images.array)
            assert train.labels.tolist() == [0, 1] * 10
    assert len(errors) > 100
    assert all(error.startswith(str(tmp_path / "pictures.npz")) for error in errors)


def test_a_message_does_not_repeat_what_a_damaged_file_claims(tmp_path: Path) -> None:
    """Found by mutation: the name of an array claims to be thousands of bytes long."""
    load(tmp_path, PLAIN)
    content = bytearray((tmp_path / "pictures.npz").read_bytes())
    content[27] = 0xFF  # the high byte of the first name's length
    (tmp_path / "pictures.npz").write_bytes(content + bytes(70_000))
    with pytest.raises(DataError, match="cannot be read") as error:
        read(Npz(), [tmp_path])
    assert len(str(error.value)) < 500
