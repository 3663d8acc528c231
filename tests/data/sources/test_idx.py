"""IDX files, packed or not."""

import gzip
import hashlib
import struct
from pathlib import Path

import numpy as np
import pytest

from metapl.data.reading.decode import DataError
from metapl.data.sources.idx import FashionMnist, Mnist, read
from metapl.data.sources.source import InMemory

IMAGES = np.random.RandomState(0).randint(0, 256, (5, 28, 28)).astype(np.uint8)
LABELS = np.array([3, 0, 9, 1, 1], np.uint8)


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def write(folder: Path, packed: bool, **changed: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for part, array in (("images-idx3", IMAGES), ("labels-idx1", LABELS)):
        for prefix in ("train", "t10k"):
            name = f"{prefix}-{part}-ubyte"
            content = changed.get(f"{prefix}_{part[:6]}", idx(array))
            (folder / (name + ".gz" * packed)).write_bytes(gzip.compress(content) if packed else content)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("place", ["", "fashion-mnist"])
def test_files_are_read(tmp_path: Path, packed: bool, place: str) -> None:
    write(tmp_path / place, packed)
    source = read(FashionMnist(verify=False), [tmp_path])
    for part in ("train", "test"):
        images = source.parts[part].images
        assert isinstance(images, InMemory)
        np.testing.assert_array_equal(images.array, IMAGES[..., None])
        np.testing.assert_array_equal(source.parts[part].labels, LABELS)
    assert source.class_names[9] == "Ankle boot"


def test_each_source_has_a_folder_of_its_own(tmp_path: Path) -> None:
    write(tmp_path / "mnist", packed=False)
    assert read(Mnist(verify=False), [tmp_path]).class_names == tuple("0123456789")
    with pytest.raises(DataError, match=r"fashion-mnist/train-images-idx3-ubyte\(\.gz\).*Zalando"):
        read(FashionMnist(verify=False), [tmp_path])


@pytest.mark.parametrize("packed", [False, True])
def test_files_are_compared_with_the_known_checksums_however_they_are_packed(
    tmp_path: Path, packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, packed)
    with pytest.raises(DataError, match="6bbc9ace898e44ae57da46a324031adb"):
        read(Mnist(), [tmp_path])
    sums = {name: hashlib.md5(idx(IMAGES if "images" in name else LABELS)).hexdigest() for name in Mnist.md5}
    monkeypatch.setattr(Mnist, "md5", sums)
    assert len(read(Mnist(), [tmp_path]).parts["train"].images) == 5


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"train_images": b"\0\0\x08\x01" + bytes(50)}, "not an IDX file of bytes with 3 axes"),
        ({"train_images": b"\0\0\x0d" + idx(IMAGES)[3:]}, "not an IDX file"),
        ({"train_images": b"\0\0"}, "not an IDX file"),
        ({"train_images": idx(IMAGES)[:-1]}, "fewer than the 3,920 bytes"),
        ({"train_images": idx(IMAGES) + b"x"}, "more than the 3,920 bytes"),
        ({"train_images": struct.pack(">HBB3I", 0, 8, 3, 60_000, 9_999, 9_999)}, "claims 5,998,800,060,000 bytes"),
        ({"train_labels": idx(LABELS[:-1])}, "has 5 pictures, train-labels-idx1-ubyte 4 labels"),
        ({"train_labels": idx(LABELS + 1)}, "the label 10"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_wrong_content_is_named(tmp_path: Path, packed: bool, changed: dict[str, bytes], reason: str) -> None:
    write(tmp_path, packed, **changed)
    with pytest.raises(DataError, match=rf"train-(images|labels)-idx.*{reason}"):
        read(Mnist(verify=False), [tmp_path])


@pytest.mark.parametrize("content", [b"", b"nothing packed", gzip.compress(idx(IMAGES))[:-500]])
def test_damaged_packing_is_named(tmp_path: Path, content: bytes) -> None:
    write(tmp_path, packed=True)
    (tmp_path / "t10k-images-idx3-ubyte.gz").write_bytes(content)
    with pytest.raises(DataError, match=r"t10k-images-idx3-ubyte\.gz"):
        read(Mnist(verify=False), [tmp_path])
