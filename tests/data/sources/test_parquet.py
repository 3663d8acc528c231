"""Parquet files: as the Hugging Face library writes them, and every way in which they can be wrong."""

import os
from pathlib import Path

import numpy as np
import pytest

from metapl.data import open_source, pictures
from metapl.data.reading import parquet_file
from metapl.data.reading.decode import BadImage, DataError
from metapl.data.reading.packed import Packed
from metapl.data.sources import parquet as parquet_source
from metapl.data.sources.csv_list import CsvList
from metapl.data.sources.parquet import Parquet, read
from metapl.data.sources.source import Source
from metapl.data.splits import manifest
from metapl.schema import ConfigError
from tests.data.shard_files import png, write_parquet

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.parquet")  # which makes it an attribute of pyarrow
NAMES = ["cat", "dog", "owl"]


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    place = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(place))
    return place / "metapl" / "parquet"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for shard in range(2):
        greys = [10 * shard + i for i in range(5)]
        place = tmp_path / "data" / f"train-0000{shard}-of-00002.parquet"
        write_parquet(place, [png(grey) for grey in greys], [grey % 3 for grey in greys], NAMES)
    write_parquet(tmp_path / "data" / "validation-00000-of-00001.parquet", [png(77)], [2], NAMES)
    return tmp_path


def images(source: Source, part: str) -> Packed:
    found = source.parts[part].images
    assert isinstance(found, Packed)
    return found


def test_hugging_faces_layout(folder: Path) -> None:
    source = read(Parquet(), [folder])
    assert {part: len(found.images) for part, found in source.parts.items()} == {"train": 10, "val": 1}
    assert source.class_names == tuple(NAMES)
    assert source.parts["train"].labels.tolist() == [0, 1, 2, 0, 1, 1, 2, 0, 1, 2]
    train = images(source, "train")
    assert [int(train[i][0, 0, 0]) for i in (9, 0, 5, 4)] == [14, 0, 10, 4]
    assert train.name(6) == f"{folder}/data/train-00001-of-00002.parquet/1"
    assert isinstance(open_source.settings_of(str(folder)), Parquet)


def test_plain_bytes_text_labels_and_unlabelled_rows(tmp_path: Path) -> None:
    table = pa.table({"jpg": [png(1), png(2), png(3)], "class": ["owl", None, "ape"]})
    pa.parquet.write_table(table, tmp_path / "mine.parquet")
    source = open_source.open_source(str(tmp_path / "mine.parquet"), [])
    assert source.class_names == ("ape", "owl")
    assert source.parts["train"].labels.tolist() == [1, -1, 0]
    assert int(images(source, "train")[2][0, 0, 0]) == 3


def test_pictures_are_copied_once_and_again_if_anything_changes(folder: Path, cache: Path, monkeypatch) -> None:
    read(Parquet(), [folder])
    assert len(list(cache.glob("*.pictures"))) == 3
    with monkeypatch.context() as context:
        context.setattr(parquet_file, "pictures", lambda *_: pytest.fail("copied again"))
        read(Parquet(), [folder])
    broken = sorted(cache.glob("*.pictures"))[0]
    broken.write_bytes(broken.read_bytes()[:-1])
    assert [int(images(read(Parquet(), [folder]), "train")[i][0, 0, 0]) for i in (4, 9)] == [4, 14]
    shard = folder / "data" / "validation-00000-of-00001.parquet"
    write_parquet(shard, [png(78)], [2], NAMES)
    os.utime(shard, ns=(1, 1))
    assert int(images(read(Parquet(), [folder]), "val")[0][0, 0, 0]) == 78


def test_a_killed_copy_leaves_nothing_that_is_used(folder: Path, cache: Path, monkeypatch) -> None:
    def killed(path: Path, column: str):
        yield png(1)
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr(parquet_file, "pictures", killed)
        with pytest.raises(KeyboardInterrupt):
            read(Parquet(), [folder])
    assert list(cache.iterdir()) == []
    (cache / "old.99.partial").write_bytes(b"x")
    os.utime(cache / "old.99.partial", (1, 1))
    assert len(read(Parquet(), [folder]).parts["train"].images) == 10
    assert not (cache / "old.99.partial").exists()


def test_a_full_disk_is_explained(folder: Path, monkeypatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(parquet_source.os, "fsync", full)
    with pytest.raises(ConfigError, match=r"No space left on device.*give the same command again"):
        read(Parquet(), [folder])


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"image": "photo"}, r"no column 'photo' of encoded pictures; its columns are image, label"),
        ({"image": "label"}, r"no column 'label' of encoded pictures"),
        ({"label": "kind"}, r"no column 'kind'; its columns are image, label"),
        ({"label": ""}, "no picture of train has a label"),
        ({"train": "nothing*"}, r"no \.parquet file for train = 'nothing\*'"),
    ],
)
def test_wrong_settings_are_named(folder: Path, settings: dict[str, str], says: str) -> None:
    with pytest.raises(DataError, match=says):
        read(Parquet(**settings), [folder])


def test_columns_that_are_not_there_or_several(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    pa.parquet.write_table(pa.table({"x": [1], "label": [0]}), file)
    with pytest.raises(DataError, match="no column of encoded pictures; its columns are x, label"):
        read(Parquet(), [tmp_path])
    pa.parquet.write_table(pa.table({"a": [b"1"], "b": [b"2"], "label": [0]}), file)
    with pytest.raises(DataError, match="several columns of encoded pictures; set image to one of a, b"):
        read(Parquet(), [tmp_path])
    deeper = [[{"bytes": b"1"}], {"bytes": {"bytes": b"1"}}]  # a list of pictures, and a struct in a struct
    for value in deeper:
        pa.parquet.write_table(pa.table({"image": [value], "label": [0]}), file)
        with pytest.raises(DataError, match="no column of encoded pictures; its columns are image, label"):
            read(Parquet(), [tmp_path])
    pa.parquet.write_table(pa.table({"a": [b"1"], "label": [0.5]}), file)
    with pytest.raises(DataError, match=r"a\.parquet/0: label must be a whole number or a text, got 0\.5"):
        read(Parquet(), [tmp_path])


def test_labels_that_cannot_be(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", [png(1), png(2)], [0, 3], NAMES)
    with pytest.raises(DataError, match=r"a\.parquet/1: the label 3 of train is not a class"):
        read(Parquet(), [tmp_path])
    (tmp_path / "a.parquet").unlink()
    write_parquet(tmp_path / "train.parquet", [png(1), png(2)], [0, -1], NAMES)
    write_parquet(tmp_path / "test.parquet", [png(3), png(4)], [-1, -1], NAMES)
    with pytest.raises(DataError, match=r"2 of 2 pictures of test have no label"):
        read(Parquet(), [tmp_path])
    source = read(Parquet(test="", unlabeled="test*"), [tmp_path])
    assert [part.labels.tolist() for part in source.parts.values()] == [[0, -1], [-1, -1]]


def test_rows_without_a_picture_are_named_when_they_are_read(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", [png(1), None, b"junk"], [0, 1, 0], NAMES)
    train = images(read(Parquet(), [tmp_path]), "train")
    assert train[0].shape == (3, 4, 3)
    with pytest.raises(BadImage, match=r"a\.parquet/1: the picture has no bytes"):
        train[1]
    with pytest.raises(BadImage, match=r"a\.parquet/2: not a picture"):
        train[2]


def test_random_damage_is_a_data_error_or_a_bad_picture(tmp_path: Path) -> None:
    whole = write_parquet(tmp_path / "a.parquet", [png(1), png(2)], [0, 1], NAMES).read_bytes()
    draw, errors = np.random.RandomState(0), 0
    for _ in range(150):
        data = bytearray(whole[: draw.randint(len(whole))] if draw.rand() < 0.2 else whole)
        for _ in range(draw.randint(1, 4)):
            data[draw.randint(len(data))] = draw.randint(256) if data else 0
        (tmp_path / "a.parquet").write_bytes(data)
        try:
            train = read(Parquet(), [tmp_path]).parts["train"]
            for i in range(len(train.images)):
                train.images[i]
        except (DataError, BadImage) as error:
            errors += 1
            assert "a.parquet" in str(error) or "parquet:" in str(error)  # noqa: PT017
    assert errors > 50


def test_without_pyarrow_the_way_out_is_named(folder: Path, monkeypatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(ConfigError, match=r"pip install 'metapl\[parquet\]'"):
        read(Parquet(), [folder])


def test_a_list_may_name_rows_and_a_changed_file_is_noticed(folder: Path) -> None:
    table = folder / "list.csv"
    table.write_text("path,label\ndata/train-00001-of-00002.parquet/4,b\ndata/train-00000-of-00002.parquet/0,a\n")
    train = images(open_source.open_settings(CsvList(file=str(table)), []), "train")
    assert [int(train[i][0, 0, 0]) for i in (0, 1)] == [14, 0]
    config = Parquet(path=str(folder))
    before = pictures.load(config, []).manifest
    write_parquet(folder / "data" / "validation-00000-of-00001.parquet", [png(79)], [2], NAMES)
    with pytest.raises(DataError, match="val changed"):
        manifest.check_manifest(before, pictures.load(config, []).manifest)
