"""CIFAR in every published form, made small; and the official files, where METAPL_CIFAR10 says where they are."""

import io
import os
import pickle
import tarfile
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from metapl.data.reading.decode import DataError
from metapl.data.sources.cifar import Cifar10, Cifar100, read
from metapl.data.sources.source import InMemory, Source
from metapl.data.sources.spec import parse_spec
from metapl.data.splits.assemble import assemble
from metapl.data.splits.split import make_split

SIZE = 3  # pictures in a file
NAMES_10 = [b"airplane", b"automobile", b"bird", b"cat", b"deer", b"dog", b"frog", b"horse", b"ship", b"truck"]


def pixels(number: int) -> np.ndarray:
    return np.random.RandomState(number).randint(0, 256, (SIZE, 3072)).astype(np.uint8)


def labels(number: int, classes: int) -> list[int]:
    return [(number * 3 + i) % classes for i in range(SIZE)]


def python_10() -> dict[str, bytes]:
    batches = {
        f"data_batch_{i}": pickle.dumps({b"data": pixels(i), b"labels": labels(i, 10)}, protocol=2) for i in range(1, 6)
    }
    test = pickle.dumps({"data": pixels(9), "labels": labels(9, 10)}, protocol=2)
    return batches | {"test_batch": test, "batches.meta": pickle.dumps({"label_names": NAMES_10}, protocol=2)}


def binary_10() -> dict[str, bytes]:
    def rows(i: int) -> bytes:
        return np.hstack([np.array(labels(i, 10), np.uint8)[:, None], pixels(i)]).tobytes()

    found = {f"data_batch_{i}.bin": rows(i) for i in range(1, 6)}
    return found | {"test_batch.bin": rows(9), "batches.meta.txt": b"\n".join(NAMES_10) + b"\n\n"}


def python_100() -> dict[str, bytes]:
    def batch(i: int) -> bytes:
        content = {"data": pixels(i), "fine_labels": labels(i, 100), "coarse_labels": [0] * SIZE}
        return pickle.dumps(content, protocol=2)

    names = {"fine_label_names": [f"c{i}" for i in range(100)], "coarse_label_names": ["x"]}
    return {"train": batch(30), "test": batch(9), "meta": pickle.dumps(names, protocol=2)}


def binary_100() -> dict[str, bytes]:
    def rows(i: int) -> bytes:
        fine = np.array(labels(i, 100), np.uint8)[:, None]
        return np.hstack([np.full_like(fine, 7), fine, pixels(i)]).tobytes()

    names = "\n".join(f"c{i}" for i in range(100)).encode()
    return {"train.bin": rows(30), "test.bin": rows(9), "fine_label_names.txt": names}


FORMS = {
    "cifar-10-batches-py": (python_10, "cifar-10-python.tar.gz"),
    "cifar-10-batches-bin": (binary_10, "cifar-10-binary.tar.gz"),
    "cifar-100-python": (python_100, "cifar-100-python.tar.gz"),
    "cifar-100-binary": (binary_100, "cifar-100-binary.tar.gz"),
}


def write(folder: Path, form: str, packed: bool, **changed: bytes) -> None:
    make, archive = FORMS[form]
    content = make() | changed
    if packed:
        with tarfile.open(folder / archive, "w:gz") as tar:
            for name, data in content.items():
                info = tarfile.TarInfo(f"{form}/{name}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    else:
        (folder / form).mkdir()
        for name, data in content.items():
            (folder / form / name).write_bytes(data)


def config(form: str, verify: bool = False) -> Cifar10 | Cifar100:
    return Cifar100(verify=verify) if "100" in form else Cifar10(verify=verify)


def array(source: Source, part: str) -> np.ndarray:
    images = source.parts[part].images
    assert isinstance(images, InMemory)
    return images.array


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_reads_the_same(tmp_path: Path, form: str, packed: bool) -> None:
    write(tmp_path, form, packed)
    source = read(config(form), [tmp_path])
    numbers = [30] if "100" in form else [1, 2, 3, 4, 5]
    wanted = np.concatenate([pixels(i) for i in numbers]).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    classes = 100 if "100" in form else 10
    np.testing.assert_array_equal(array(source, "train"), wanted)
    np.testing.assert_array_equal(
        source.parts["train"].labels, [label for i in numbers for label in labels(i, classes)]
    )
    np.testing.assert_array_equal(array(source, "test")[1, :, :, 2], pixels(9)[1, 2048:].reshape(32, 32))
    assert source.parts["train"].labels.dtype == np.int32
    assert source.parts["train"].images.name(2) == "train[2]"
    assert source.class_names == (
        tuple(f"c{i}" for i in range(100)) if "100" in form else tuple(map(bytes.decode, NAMES_10))
    )


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("form", ["cifar-10-batches-py", "cifar-100-python"])
def test_other_files_than_the_official_ones_are_refused(tmp_path: Path, form: str, packed: bool) -> None:
    write(tmp_path, form, packed)
    with pytest.raises(DataError, match=r"has the md5 .* official"):
        read(config(form, verify=True), [tmp_path])


def test_every_official_batch_has_its_checksum_compared() -> None:
    for layout in (Cifar10.layouts[0], Cifar100.layouts[0]):
        assert None not in {**layout.train, **layout.test, layout.names: layout.names_md5}.values()


def test_a_data_dir_that_is_the_batch_folder_itself(tmp_path: Path) -> None:
    write(tmp_path, "cifar-10-batches-py", packed=False)
    assert len(read(Cifar10(verify=False), [tmp_path / "cifar-10-batches-py"]).parts["train"].images) == 15


def test_missing_files_are_told_with_origin_and_place(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        read(Cifar10(), [tmp_path / "mine", tmp_path / "cache"])
    text = str(caught.value)
    for part in ("cifar-10-batches-py", "cifar-10-python.tar.gz", "Krizhevsky", str(tmp_path / "mine"), "cache"):
        assert part in text
    write(tmp_path, "cifar-10-batches-py", packed=False)
    (tmp_path / "cifar-10-batches-py" / "data_batch_4").unlink()
    with pytest.raises(DataError, match="has no data_batch_4"):
        read(Cifar10(verify=False), [tmp_path])


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "data_batch_2"),
        (pickle.dumps({"data": pixels(1)[:, :-1], "labels": [1, 2, 3]}, protocol=2), "3072 bytes for each picture"),
        (pickle.dumps({"data": pixels(1), "labels": [1, 2]}, protocol=2), "one whole number for each"),
        (pickle.dumps({"data": pixels(1), "labels": [1, 2, "x"]}, protocol=2), "one whole number for each"),
        (pickle.dumps({"data": pixels(1), "labels": [1, 2, 10]}, protocol=2), "outside the 10 classes"),
        (pickle.dumps({"data": pixels(1), "labels": [1, 2, -1]}, protocol=2), "outside the 10 classes"),
        (pickle.dumps({"labels": [1, 2, 3]}, protocol=2), "does not have 3072 bytes for each picture"),
    ],
)
def test_damaged_batches_are_named(tmp_path: Path, packed: bool, content: bytes, reason: str) -> None:
    write(tmp_path, "cifar-10-batches-py", packed, data_batch_2=content)
    with pytest.raises(DataError, match=reason):
        read(Cifar10(verify=False), [tmp_path])


def test_hostile_batch_runs_nothing(tmp_path: Path) -> None:
    hostile = f"cos\nsystem\n(Vtouch {tmp_path / 'hit'}\ntR.".encode()
    write(tmp_path, "cifar-10-batches-py", False, data_batch_2=hostile)
    with pytest.raises(DataError, match=r"data_batch_2.*os\.system"):
        read(Cifar10(verify=False), [tmp_path])
    assert not (tmp_path / "hit").exists()


def test_damaged_archives_are_named(tmp_path: Path) -> None:
    archive = tmp_path / "cifar-10-python.tar.gz"
    write(tmp_path, "cifar-10-batches-py", packed=True)
    whole = archive.read_bytes()
    for content in (b"", b"nothing", whole[: len(whole) // 2]):
        archive.write_bytes(content)
        with pytest.raises(DataError, match=r"cifar-10-python\.tar\.gz"):
            read(Cifar10(verify=False), [tmp_path])


def test_an_archive_member_cannot_be_a_link_or_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "cifar-10-python.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        link = tarfile.TarInfo("cifar-10-batches-py/batches.meta")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
        tar.addfile(link)
    with pytest.raises(DataError, match=r"batches\.meta"):
        read(Cifar10(verify=False), [tmp_path])
    write(tmp_path, "cifar-10-batches-py", packed=True)
    monkeypatch.setattr("metapl.data.sources.cifar._MAX_FILE", 5_000)
    with pytest.raises(DataError, match="data_batch_1 is not a file of up to 5,000 bytes"):
        read(Cifar10(verify=False), [tmp_path])


def test_binary_batch_of_a_wrong_length(tmp_path: Path) -> None:
    write(tmp_path, "cifar-10-batches-bin", False, **{"data_batch_1.bin": bytes(3073 * 2 + 5)})
    with pytest.raises(DataError, match=r"data_batch_1\.bin has 6151 bytes"):
        read(Cifar10(verify=False), [tmp_path])


official = pytest.mark.skipif(
    "METAPL_CIFAR10" not in os.environ, reason="METAPL_CIFAR10 does not say where cifar-10-batches-py is"
)


@pytest.fixture(scope="module")
def official_source() -> Source:
    return read(Cifar10(), [Path(os.environ["METAPL_CIFAR10"])])


@official
def test_official_files(official_source: Source) -> None:
    assert array(official_source, "train").shape == (50_000, 32, 32, 3)
    assert array(official_source, "test").shape == (10_000, 32, 32, 3)
    assert np.bincount(official_source.parts["train"].labels).tolist() == [5_000] * 10
    assert official_source.class_names == tuple(map(bytes.decode, NAMES_10))
    with (Path(os.environ["METAPL_CIFAR10"]) / "cifar-10-batches-py" / "data_batch_3").open("rb") as file:
        third = pickle.load(file, encoding="bytes")
    wanted = third[b"data"][17].reshape(3, 32, 32).transpose(1, 2, 0)
    np.testing.assert_array_equal(array(official_source, "train")[20_017], wanted)


@official
def test_cifar10_4k_on_the_official_files(official_source: Source) -> None:
    data = assemble(official_source, make_split(parse_spec("cifar10-4k"), official_source))
    assert (
        len(data.images("labeled")),
        len(data.images("unlabeled")),
        len(data.images("val")),
        len(data.images("test")),
    ) == (4_000, 41_000, 0, 10_000)
    # The slight imbalance that Appendix C.1 speaks of.
    assert np.bincount(data.labels("labeled")).tolist() == [396, 407, 398, 421, 377, 372, 403, 429, 404, 393]
    assert data.manifest["labeled"]["class_counts"] == [396, 407, 398, 421, 377, 372, 403, 429, 404, 393]
    assert (data.images("labeled").name(0), data.images("labeled").name(-1)) == ("train[5000]", "train[8999]")
    assert (data.images("unlabeled").name(0), data.images("unlabeled").name(-1)) == ("train[9000]", "train[49999]")
    for images in (data.images("labeled"), data.images("unlabeled")):
        assert isinstance(images, InMemory)
        assert np.shares_memory(images.array, array(official_source, "train"))  # no copy
    assert data.manifest["checksum"] == "d726c1aaaad51a7b1309096560f73d5d7780ec6f24fef718b8bd72f5d4480419"


@official
def test_reading_takes_less_than_three_times_the_data() -> None:
    tracemalloc.start()
    try:
        source = read(Cifar10(), [Path(os.environ["METAPL_CIFAR10"])])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    size = sum(array(source, part).nbytes for part in source.parts)
    assert peak < 3 * size
