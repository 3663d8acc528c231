"""TFRecord files written here by hand, and every way in which they can be damaged."""

import io
import json
import struct
from pathlib import Path

import google_crc32c
import numpy as np
import pytest
from PIL import Image

from metapl.data import pictures as pictures_of
from metapl.data.reading import records
from metapl.data.reading.decode import DataError
from metapl.data.sources.source import BadImage, Records, Source
from metapl.data.sources.tfrecord import TFRecord, read
from metapl.data.splits import assemble


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def feature(value: bytes | int | float, packed: bool = True) -> bytes:
    if isinstance(value, bytes):
        return field(1, field(1, value))
    if isinstance(value, float):
        return field(2, field(1, struct.pack("<f", value)))
    number = varint(value & 0xFFFFFFFFFFFFFFFF)
    return field(3, field(1, number) if packed else varint(1 << 3) + number)


def example(values: dict[str, bytes | int | float], packed: bool = True) -> bytes:
    entries = (field(1, field(1, name.encode()) + field(2, feature(value, packed))) for name, value in values.items())
    return field(1, b"".join(entries))


def masked(data: bytes) -> bytes:
    crc = google_crc32c.value(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17 & 0xFFFFFFFF)) + 0xA282EAD8) & 0xFFFFFFFF)


def record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + masked(length) + data + masked(data)


def png(grey: int) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (4, 3), (grey, 1, 2)).save(out, "PNG")
    return out.getvalue()


def imagenet(grey: int, label: int, packed: bool = True) -> bytes:
    text = f"class {label}".encode()
    values = {"image/height": 3, "image/score": 0.5, "image/class/label": label, "image/class/text": text}
    return record(example(values | {"image/encoded": png(grey), "image/filename": f"{grey}.JPEG".encode()}, packed))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for shard in range(2):
        content = b"".join(imagenet(10 * shard + i, 1 + (shard + i) % 3, packed=i == 0) for i in range(3))
        (tmp_path / f"train-0000{shard}-of-00002").write_bytes(content)
    (tmp_path / "validation-00000-of-00001").write_bytes(imagenet(77, 3))
    return tmp_path


def pictures(source: Source, part: str) -> Records:
    images = source.parts[part].images
    assert isinstance(images, Records)
    return images


def test_imagenet_layout(folder: Path) -> None:
    source = read(TFRecord(), [folder])
    assert source.class_names == ("class 1", "class 2", "class 3")
    assert source.parts["train"].labels.tolist() == [0, 1, 2, 1, 2, 0]
    assert source.parts["test"].labels.tolist() == [2]
    train = pictures(source, "train")
    assert train.shard.tolist() == [0, 0, 0, 1, 1, 1]
    assert [int(train[i][0, 0, 0]) for i in (5, 0, 3, 4)] == [12, 0, 10, 11]
    assert train[0].shape == (3, 4, 3)
    assert train.text(4, "image/filename") == "11.JPEG"
    assert train.text(4, "image/height") is None
    assert train.name(3) == f"{folder / 'train-00001-of-00002'}@0"


def test_a_folder_called_imagenet_in_the_data_folder(folder: Path) -> None:
    inside = folder / "imagenet"
    inside.mkdir()
    for path in folder.glob("*-of-*"):
        path.rename(inside / path.name)
    assert len(read(TFRecord(), [folder]).parts["train"].images) == 6
    assert len(read(TFRecord(path=str(inside)), []).parts["train"].images) == 6


def test_other_field_names_and_no_labels(tmp_path: Path) -> None:
    (tmp_path / "a.tfrecord").write_bytes(record(example({"img": png(5), "y": 0})) + record(example({"img": png(6)})))
    (tmp_path / "b.tfrecord").write_bytes(record(example({"img": png(7), "y": 1})))
    settings = TFRecord(
        train="a.tfrecord", test="", unlabeled="b.*", image_field="img", label_field="y", text_field="", first_label=0
    )
    source = read(settings, [tmp_path])
    assert source.parts["train"].labels.tolist() == [0, -1]
    assert source.parts["unlabeled"].labels.tolist() == [-1]
    assert source.class_names == ("0",)
    assert int(pictures(source, "unlabeled")[0][0, 0, 0]) == 7


def test_missing_files_are_told(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.raises(DataError, match=r"train-\*-of-\*.*Inception"):
        read(TFRecord(), [tmp_path_factory.mktemp("none")])
    (folder / "train-00000-of-00002").unlink()
    with pytest.raises(DataError, match=r"lacks 1 of 2 files .* number 0"):
        read(TFRecord(), [folder])


@pytest.mark.parametrize("label", [0, -1, b"dog"])
def test_labels_that_cannot_be(folder: Path, label: int | bytes) -> None:
    (folder / "validation-00000-of-00001").write_bytes(record(example({"image/class/label": label})))
    with pytest.raises(DataError, match=r"validation-00000-of-00001@0: image/class/label must be a number from 1 up"):
        read(TFRecord(), [folder])


@pytest.mark.parametrize("kept", [0, 5, 12, 100, -1])
def test_cut_files_are_named_with_the_place(folder: Path, kept: int) -> None:
    path = folder / "train-00001-of-00002"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(DataError, match="train-00001-of-00002"):
        read(TFRecord(), [folder])


def test_a_wrong_length_is_seen_by_its_checksum(folder: Path) -> None:
    path = folder / "train-00001-of-00002"
    content = bytearray(path.read_bytes())
    content[0] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"@0: .*length's checksum is wrong"):
        read(TFRecord(), [folder])


def test_a_changed_picture_is_seen_by_its_checksum(folder: Path) -> None:
    path = folder / "train-00001-of-00002"
    content = bytearray(path.read_bytes())
    content[content.index(b"IDAT") + 6] ^= 1
    path.write_bytes(content)
    train = pictures(read(TFRecord(), [folder]), "train")
    with pytest.raises(BadImage, match="train-00001-of-00002@0: the record's checksum is wrong"):
        train[3]
    with pytest.raises(BadImage, match="checksum is wrong"):
        train.text(3, "image/filename")
    assert train[4].shape == (3, 4, 3)


def test_records_without_a_picture(folder: Path) -> None:
    path = folder / "validation-00000-of-00001"
    for values, reason in (
        ({"image/class/label": 1}, "no bytes 'image/encoded'"),
        ({"image/class/label": 1, "image/encoded": 3}, "no bytes 'image/encoded'"),
        ({"image/class/label": 1, "image/encoded": b""}, "has no bytes"),
        ({"image/class/label": 1, "image/encoded": b"junk"}, "not a picture"),
    ):
        path.write_bytes(record(example(values)))
        with pytest.raises(BadImage, match=reason):
            pictures(read(TFRecord(), [folder]), "test")[0]


@pytest.mark.parametrize("data", [b"\xff" * 11, b"\x0a\x7f", b"\x0b", b"\x08\x01", field(1, b"\x0a\x03\x0a\x05a")])
def test_records_that_are_no_examples(folder: Path, data: bytes) -> None:
    (folder / "train-00000-of-00002").write_bytes(record(data))
    with pytest.raises(DataError, match=r"train-00000-of-00002@0: the record is not a tf\.train\.Example"):
        read(TFRecord(), [folder])


def test_the_checksum_is_the_published_one() -> None:
    # CRC-32C of "123456789" is 0xE3069283 (RFC 3720); masked by hand.
    assert (
        records.masked_crc(b"123456789") == ((0xE3069283 >> 15 | (0xE3069283 << 17) & 0xFFFFFFFF) + 0xA282EAD8) % 2**32
    )


def test_negative_numbers() -> None:
    found = records.parse_example(memoryview(example({"a": -5, "b": 2**40})), {"a", "b"})
    assert found == {"a": -5, "b": 2**40}


def test_a_damaged_record_is_named_wherever_the_damage_is(tmp_path: Path) -> None:
    draw, errors = np.random.RandomState(0), []
    wanted = {"image/class/label", "image/encoded"}
    whole = example({"image/class/label": 1, "image/encoded": b"x" * 20})
    for _ in range(500):
        data = bytearray(whole)
        data[draw.randint(len(data))] = draw.randint(256)
        (tmp_path / "shard").write_bytes(record(bytes(data)))
        try:
            ((start, values),) = records.scan(tmp_path / "shard", wanted)
        except DataError as error:  # anything else would end a run without the file's name
            errors.append(str(error))
        else:
            assert start == 0
            assert set(values) <= wanted
    assert len(errors) > 50
    assert set(errors) == {f"{tmp_path / 'shard'}@0: the record is not a tf.train.Example"}


def validation_picture(number: int, label: int) -> bytes:
    name = f"ILSVRC2012_val_{number:08}.JPEG".encode()
    return record(example({"image/class/label": label, "image/encoded": png(1), "image/filename": name}))


def test_real_labels_go_to_the_pictures_by_their_names(tmp_path: Path) -> None:
    (tmp_path / "train-00000-of-00001").write_bytes(imagenet(1, 1) + imagenet(2, 1000))
    (tmp_path / "validation-00000-of-00001").write_bytes(validation_picture(3, 1) + validation_picture(1, 1000))
    (tmp_path / "reassessed.json").write_text(json.dumps([[999, 5], [7], [], *[[0]] * 49_997]))
    dataset = pictures_of.load(TFRecord(real_labels="reassessed.json"), [tmp_path])
    assert dataset.test_real is not None
    assert [row.nonzero()[0].tolist() for row in dataset.test_real] == [[], [5, 999]]
    assert assemble.in_memory(dataset, 0).test_real is dataset.test_real
    assert pictures_of.load(TFRecord(), [tmp_path]).test_real is None


def test_real_labels_are_refused_where_they_mean_nothing(folder: Path) -> None:
    (folder / "real.json").write_text(json.dumps([[0]] * 50_000))
    with pytest.raises(DataError, match=r"77\.JPEG is not the name of an ILSVRC-2012 validation picture"):
        pictures_of.load(TFRecord(real_labels="real.json"), [folder])
    (folder / "validation-00000-of-00001").write_bytes(validation_picture(1, 3))
    with pytest.raises(DataError, match="ImageNet's 1,000 classes, but the data have 3"):
        pictures_of.load(TFRecord(real_labels="real.json"), [folder])
