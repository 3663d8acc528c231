"""SVHN's .mat files, made small."""

from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from metapl.data.reading.decode import DataError
from metapl.data.sources.source import InMemory
from metapl.data.sources.svhn import Svhn, read

LABELS = [1, 9, 10, 2]  # 10 means 0


def images(seed: int) -> np.ndarray:
    return np.random.RandomState(seed).randint(0, 256, (4, 32, 32, 3)).astype(np.uint8)


def write(folder: Path, *parts: str, **changed: object) -> None:
    for number, part in enumerate(parts):
        content = {"X": images(number).transpose(1, 2, 3, 0), "y": np.array(LABELS, np.uint8)[:, None]} | changed
        savemat(folder / f"{part}_32x32.mat", content, do_compression=True)


def test_all_three_files(tmp_path: Path) -> None:
    write(tmp_path, "train", "test", "extra")
    source = read(Svhn(verify=False), [tmp_path])
    assert set(source.parts) == {"train", "test", "extra"}
    for number, part in enumerate(("train", "test", "extra")):
        found = source.parts[part].images
        assert isinstance(found, InMemory)
        np.testing.assert_array_equal(found.array, images(number))
        assert found.array.flags.c_contiguous
        assert source.parts[part].labels.tolist() == [1, 9, 0, 2]
    assert source.class_names == tuple("0123456789")


def test_extra_may_be_left_out_only_by_asking(tmp_path: Path) -> None:
    write(tmp_path, "train", "test")
    assert set(read(Svhn(verify=False, extra=False), [tmp_path]).parts) == {"train", "test"}
    with pytest.raises(DataError, match=r"extra_32x32\.mat.*extra = false.*Stanford"):
        read(Svhn(verify=False), [tmp_path])


def test_other_files_than_the_known_ones_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "train", "test")
    with pytest.raises(DataError, match="e26dedcc434d2e4c54c9b2d4a06d8373"):
        read(Svhn(extra=False), [tmp_path])


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"X": np.zeros((32, 32, 3, 5), np.uint8)}, "must have X"),
        ({"X": np.zeros((32, 32, 1, 4), np.uint8)}, "must have X"),
        ({"X": np.zeros((32, 32, 3, 4), np.float32)}, "must have bytes"),
        ({"y": np.array([[0], [1], [2], [3]])}, "labels from 1 to 10"),
        ({"y": np.array([[11], [1], [2], [3]])}, "labels from 1 to 10"),
    ],
)
def test_wrong_content_is_named(tmp_path: Path, changed: dict[str, object], reason: str) -> None:
    write(tmp_path, "train", "test", **changed)
    with pytest.raises(DataError, match=rf"train_32x32\.mat .*{reason}"):
        read(Svhn(verify=False, extra=False), [tmp_path])


@pytest.mark.parametrize("kept", [0, 60, 200, 4000])
def test_damaged_files_are_named(tmp_path: Path, kept: int) -> None:
    write(tmp_path, "train", "test")
    path = tmp_path / "test_32x32.mat"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(DataError, match=r"test_32x32\.mat"):
        read(Svhn(verify=False, extra=False), [tmp_path])


def test_a_size_that_cannot_be_is_refused_before_unpacking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metapl.data.sources.svhn._MAX_PICTURES", 3)
    monkeypatch.setattr("scipy.io.loadmat", None)
    write(tmp_path, "train", "test")
    with pytest.raises(DataError, match="claims 4 pictures"):
        read(Svhn(verify=False, extra=False), [tmp_path])


@pytest.mark.parametrize("kind", [0, 8, 14, 16, 200])
@pytest.mark.parametrize("place", [184, 136])
def test_a_wrong_type_is_refused_before_scipy_reads_it(tmp_path: Path, place: int, kind: int) -> None:
    """Found by mutation: SciPy's reader ended the process at such a file (a segmentation fault)."""
    write(tmp_path, "train", "test")
    content = {"X": images(0).transpose(1, 2, 3, 0), "y": np.array(LABELS, np.uint8)[:, None]}
    savemat(tmp_path / "train_32x32.mat", content, do_compression=False)
    assert len(read(Svhn(verify=False, extra=False), [tmp_path]).parts["train"].images) == len(LABELS)
    damaged = bytearray((tmp_path / "train_32x32.mat").read_bytes())
    damaged[place] = kind  # the type of X's numbers, or of its class
    (tmp_path / "train_32x32.mat").write_bytes(damaged)
    with pytest.raises(DataError, match=r"train_32x32\.mat cannot be read as a \.mat file: it has an array"):
        read(Svhn(verify=False, extra=False), [tmp_path])
