"""Tar shards: as the library webdataset writes them, and every way in which they can be wrong."""

import gzip
import json
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest

from metapl.data import open_source, pictures
from metapl.data.loading.files_loader import Take, stream
from metapl.data.loading.order import Shuffled
from metapl.data.reading.decode import BadImage, DataError
from metapl.data.reading.packed import Packed
from metapl.data.sources.csv_list import CsvList
from metapl.data.sources.on_disk import Reading
from metapl.data.sources.source import Source
from metapl.data.sources.webdataset import WebDataset, read
from metapl.data.splits import manifest
from tests.data.shard_files import png, sample, write_tar


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for shard in range(2):
        members = [m for i in range(3) for m in sample(f"{shard}{i}", png(10 * shard + i), (shard + i) % 3)]
        write_tar(tmp_path / f"mine-train-{shard:06}.tar", members)
    write_tar(tmp_path / "mine-val-000000.tar", sample("v", png(77), 2))
    return tmp_path


def images(source: Source, part: str) -> Packed:
    found = source.parts[part].images
    assert isinstance(found, Packed)
    return found


def test_parts_labels_and_pictures(folder: Path) -> None:
    source = read(WebDataset(), [folder])
    assert {part: len(found.images) for part, found in source.parts.items()} == {"train": 6, "val": 1}
    assert source.class_names == ("0", "1", "2")
    assert source.parts["train"].labels.tolist() == [0, 1, 2, 1, 2, 0]
    train = images(source, "train")
    assert [int(train[i][0, 0, 0]) for i in (5, 0, 3)] == [12, 0, 10]
    assert train.name(4) == f"{folder}/mine-train-000001.tar/11.png"
    (folder / "classnames.txt").write_text("cat\ndog\nowl\n")
    assert read(WebDataset(), [folder]).class_names == ("cat", "dog", "owl")


def test_what_the_library_writes_is_read(tmp_path: Path) -> None:
    webdataset = pytest.importorskip("webdataset")
    with webdataset.TarWriter(str(tmp_path / "a.tar")) as writer:
        for i in range(3):
            writer.write({"__key__": f"deep/s{i}", "png": png(i), "cls": i % 2, "json": {"name": f"n{i % 2}"}})
    source = read(WebDataset(), [tmp_path])
    assert source.parts["train"].labels.tolist() == [0, 1, 0]
    assert int(images(source, "train")[2][0, 0, 0]) == 2
    by_name = read(WebDataset(label="json.name"), [tmp_path])
    assert (by_name.class_names, by_name.parts["train"].labels.tolist()) == (("n0", "n1"), [0, 1, 0])


def test_text_labels_and_samples_without_a_label(tmp_path: Path) -> None:
    members = [*sample("a", png(1), "owl"), *sample("b", png(2)), *sample("c", png(3), "ape")]
    source = read(WebDataset(path=str(write_tar(tmp_path / "x.tar", members))), [])
    assert source.class_names == ("ape", "owl")
    assert source.parts["train"].labels.tolist() == [1, -1, 0]


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ([("a.pyd", pickle.dumps(1))], "'a.pyd': a pickle can run code"),
        ([("a.PICKLE", b"")], "a pickle can run code"),
        ([("a.cls", b"1")], "'a' must have one picture, it has none"),
        ([("a.png", b"x"), ("a.seg.png", b"y")], "one picture, it has png, seg.png; set image"),
        ([("a.png", b"x"), ("b.png", b"x"), ("a.cls", b"1")], "the sample 'a' comes twice"),
        ([("a.png", b"x"), ("a.png", b"x")], "the member 'a.png' comes twice"),
        ([("a.png", b"x"), ("a.cls", b"\xff")], "the label a.cls cannot be read"),
        ([("a.png", b"x"), ("a.cls", b"1" * 2_000_000)], "too many for a label"),
        ([("a.png", b"x")], "no picture of train has a label"),
        ([], "has no samples"),
    ],
)
def test_shards_that_are_refused(tmp_path: Path, members: list[tuple[str, bytes]], says: str) -> None:
    write_tar(tmp_path / "x.tar", members)
    with pytest.raises(DataError, match=says):
        read(WebDataset(), [tmp_path])


def test_links_and_other_labels_in_json_are_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        link = tarfile.TarInfo("a.png")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    with pytest.raises(DataError, match=r"'a\.png', which is a link"):
        read(WebDataset(), [tmp_path])
    write_tar(tmp_path / "x.tar", [("a.png", png(1)), ("a.json", json.dumps({"y": [1]}).encode())])
    with pytest.raises(DataError, match=r"must be a whole number or a text, got \[1\]"):
        read(WebDataset(label="json.y"), [tmp_path])


def test_every_cut_and_every_damaged_header_is_noticed(tmp_path: Path) -> None:
    """tarfile takes a damaged header for the end of the archive, and would leave out what follows."""
    members = [m for i in range(3) for m in sample(f"{i}", b"x" * 700, i)]
    whole = write_tar(tmp_path / "x.tar", members).read_bytes()
    last = whole.rindex(b"ustar") + 256  # after the last member's header
    for end in range(0, last, 512):
        (tmp_path / "x.tar").write_bytes(whole[:end])
        with pytest.raises(DataError, match=r"x\.tar"):
            read(WebDataset(), [tmp_path])
    for start in range(0, last, 512):
        if whole[start + 257 : start + 262] == b"ustar":
            damaged = bytearray(whole)
            damaged[start + 3] ^= 0x55
            (tmp_path / "x.tar").write_bytes(damaged)
            with pytest.raises(DataError, match=r"x\.tar"):
                read(WebDataset(), [tmp_path])


def test_a_compressed_shard_is_named_as_such(folder: Path) -> None:
    shard = folder / "mine-val-000000.tar"
    shard.write_bytes(gzip.compress(shard.read_bytes()))
    with pytest.raises(DataError, match=r"it is compressed.*unpack it"):
        read(WebDataset(), [folder])


def test_random_damage_is_a_data_error_or_a_bad_picture(tmp_path: Path) -> None:
    draw = np.random.RandomState(0)
    whole = write_tar(tmp_path / "x.tar", [m for i in range(2) for m in sample(f"{i}", png(i), i)]).read_bytes()
    for _ in range(200):
        data = bytearray(whole)
        for _ in range(draw.randint(1, 4)):
            data[draw.randint(4096)] = draw.randint(256)
        (tmp_path / "x.tar").write_bytes(data)
        try:
            source = read(WebDataset(), [tmp_path])
            for i in range(len(source.parts["train"].images)):
                source.parts["train"].images[i]
        except (DataError, BadImage) as error:
            assert "x.tar" in str(error) or "webdataset" in str(error)  # noqa: PT017


def test_missing_shards_and_names_that_say_nothing(tmp_path: Path) -> None:
    write_tar(tmp_path / "train-00001-of-00003.tar", sample("a", png(1), 0))
    with pytest.raises(DataError, match=r"lacks 2 of 3 files .* number 0"):
        read(WebDataset(), [tmp_path])
    (tmp_path / "train-00001-of-00003.tar").rename(tmp_path / "train.tar")
    write_tar(tmp_path / "extra.tar", sample("b", png(2)))
    with pytest.raises(DataError, match=r"extra\.tar does not say whether it is train"):
        read(WebDataset(), [tmp_path])
    source = read(WebDataset(train="train*", unlabeled="extra*"), [tmp_path])
    assert {part: len(found.images) for part, found in source.parts.items()} == {"train": 1, "unlabeled": 1}


def test_unlabelled_test_pictures_are_named(folder: Path) -> None:
    write_tar(folder / "mine-test-000000.tar", [*sample("t", png(5), 1), *sample("u", png(6))])
    with pytest.raises(DataError, match=r"1 of 2 pictures of test have no label .*u\.png.*test = ''"):
        read(WebDataset(), [folder])
    assert "test" not in read(WebDataset(test=""), [folder]).parts
    write_tar(folder / "mine-test-000000.tar", sample("t", png(5), 9))
    with pytest.raises(DataError, match=r"t\.png: the label 9 of test is not a class of train"):
        read(WebDataset(), [folder])


def test_a_folder_or_a_file_is_recognised(folder: Path) -> None:
    assert isinstance(open_source.settings_of(str(folder)), WebDataset)
    assert len(open_source.open_source(str(folder / "mine-val-000000.tar"), []).parts["train"].images) == 1
    (folder / "labeled" / "a").mkdir(parents=True)
    assert open_source.settings_of(str(folder)).name == "folder"


def test_a_split_draws_from_shards_and_a_changed_shard_is_noticed(folder: Path) -> None:
    config = WebDataset(path=str(folder), split="webdataset@3#1")
    loaded = pictures.load(config, [])
    assert (len(loaded.images("labeled")), len(loaded.images("unlabeled"))) == (3, 6)
    shard = folder / "mine-train-000000.tar"
    content = shard.read_bytes()
    shard.write_bytes(content.replace(png(0), png(9)))  # of equal size
    assert len(shard.read_bytes()) == len(content)
    with pytest.raises(DataError, match="pictures' content, though names and sizes are the same"):
        manifest.check_manifest(loaded.manifest, pictures.load(config, []).manifest)


def test_a_list_may_name_pictures_inside_shards(folder: Path) -> None:
    table = folder / "list.csv"
    table.write_text("path,label\nmine-train-000001.tar/12.png,b\nmine-train-000000.tar/01.png,a\n")
    train = images(open_source.open_settings(CsvList(file=str(table)), []), "train")
    assert [int(train[i][0, 0, 0]) for i in (0, 1)] == [12, 1]
    table.write_text("path,label\nmine-train-000001.tar/99.png,b\n")
    with pytest.raises(DataError, match=r"list\.csv: there is no picture .*000001\.tar/99\.png"):
        open_source.open_settings(CsvList(file=str(table)), [])
    (folder / "p.png").write_bytes(png(1))
    table.write_text("path,label\nmine-train-000001.tar/11.png,b\np.png,b\n")
    with pytest.raises(DataError, match="both picture files and pictures inside shards"):
        open_source.open_settings(CsvList(file=str(table)), [])


def test_a_picture_that_is_cut_off_later_is_named(folder: Path) -> None:
    val = images(read(WebDataset(), [folder]), "val")
    (folder / "mine-val-000000.tar").write_bytes(b"")
    with pytest.raises(BadImage, match=r"mine-val-000000\.tar/v\.png: the file was cut off"):
        val[0]
    (folder / "mine-val-000000.tar").unlink()
    with pytest.raises(BadImage, match=r"v\.png: No such file"):
        val[0]


def test_worker_processes_read_the_same_and_a_stream_starts_anywhere(folder: Path) -> None:
    take = Take(images(read(WebDataset(), [folder]), "train"), Shuffled(np.arange(6, dtype=np.uint32), 2, 6))
    whole = list(stream([take], 3, Reading(0, 2), lambda _, x: x.copy(), steps=4))
    later = list(stream([take], 3, Reading(1), lambda _, x: x.copy(), steps=4, start_step=2))
    np.testing.assert_array_equal(whole[2:], later)
