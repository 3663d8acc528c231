"""Read pictures in TFRecord files without TensorFlow: find each record, and decode its picture when it is needed.

This is a reader of our own, because no other fits (as of 2026): grain's reads one file from front to back and does not
check the checksums, and neither does PyPI's `tfrecord`; `tfr-reader` does not build with NumPy 2. The format is small:
length, checksum of the length, bytes, checksum of the bytes; google-crc32c computes the checksums.
"""

import mmap
import struct
from collections.abc import Iterator, Set
from dataclasses import dataclass
from pathlib import Path

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from metapl.data.reading.decode import BadImage, DataError, decode_bytes

_HEAD, _CHECKSUM = struct.Struct("<QI"), struct.Struct("<I")
_MAX_RECORD = 1 << 28  # a picture of 256 MB; a longer record is damaged

Value = int | memoryview  # the first number or the first text of a feature


@dataclass(frozen=True, eq=False)
class Records:
    """Encoded pictures in TFRecord files, decoded when they are needed; always RGB, of any sizes."""

    shards: tuple[Path, ...]
    shard: NDArray[np.int32]  # [N] which of the files
    offset: NDArray[np.int64]  # [N] where the record starts in it
    image_field: str

    def __len__(self) -> int:
        return len(self.offset)

    def __getitem__(self, index: int) -> NDArray[np.uint8]:
        return self.reduced(index, 0)

    def reduced(self, index: int, shorter: int) -> NDArray[np.uint8]:
        """The picture; a JPEG may come reduced, with at least `shorter` pixels on its shorter side."""
        return decode_bytes(self.encoded(index), self.name(index), shorter)

    def encoded(self, index: int) -> bytes:
        """The picture's bytes as they are stored."""
        image = self._value(index, self.image_field)
        if not isinstance(image, memoryview):
            raise BadImage(self.name(index), f"the record has no bytes {self.image_field!r}")
        return bytes(image)

    def name(self, index: int) -> str:
        """The file and the byte at which the record starts."""
        return f"{self.shards[self.shard[index]]}@{self.offset[index]}"

    def text(self, index: int, field: str) -> str | None:
        """Another field of the record, such as its file name."""
        value = self._value(index, field)
        return bytes(value).decode("utf-8", "replace") if isinstance(value, memoryview) else None

    def _value(self, index: int, field: str) -> Value | None:
        try:
            return parse_example(self._read(index), {field}).get(field)
        except (ValueError, OSError) as error:
            raise BadImage(self.name(index), str(error)) from None

    def _read(self, index: int) -> memoryview:
        """The record's bytes, checked. The file is opened each time, so that workers share nothing."""
        with self.shards[self.shard[index]].open("rb", buffering=0) as file:
            file.seek(self.offset[index])
            length = _length(file.read(_HEAD.size))
            data = file.read(length + _CHECKSUM.size)
        if len(data) != length + _CHECKSUM.size:
            raise ValueError("the record is cut off")
        if _CHECKSUM.unpack_from(data, length)[0] != masked_crc(data[:length]):
            raise ValueError("the record's checksum is wrong")
        return memoryview(data)[:length]


def scan(path: Path, wanted: Set[str]) -> Iterator[tuple[int, dict[str, Value]]]:
    """Yield each record's start and its wanted fields; only the pages that hold them are read.

    This checks the lengths' checksums; the records' own are checked when a record is read.
    """
    try:
        with path.open("rb") as file:
            view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError) as error:  # ValueError: the file is empty
        raise DataError(f"{path} cannot be read: {error}") from None
    start = 0
    while start < len(view):
        try:
            length = _length(bytes(view[start : start + _HEAD.size]))
            body = start + _HEAD.size
            if body + length + _CHECKSUM.size > len(view):
                raise ValueError("the record is cut off")
            yield start, parse_example(view[body : body + length], wanted)
        except ValueError as error:
            raise DataError(f"{path}@{start}: {error}") from None
        start = body + length + _CHECKSUM.size


def masked_crc(data: bytes) -> int:
    """The format's checksum: CRC-32C, rotated by 15 bits, plus a constant."""
    crc = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _length(head: bytes) -> int:
    if len(head) != _HEAD.size:
        raise ValueError("the record is cut off")
    length, crc = _HEAD.unpack(head)
    if crc != masked_crc(head[:8]) or length > _MAX_RECORD:
        raise ValueError("not a TFRecord file, or damaged: the length's checksum is wrong")
    return int(length)


def parse_example(example: memoryview, wanted: Set[str]) -> dict[str, Value]:
    """The wanted features of a tf.train.Example: Example{1: Features{1: entry{1: name, 2: Feature}}}."""
    values: dict[str, Value] = {}
    for _, features in _fields(example):
        for _, entry in _fields(_view(features)):
            pair = dict(_fields(_view(entry)))
            name = bytes(_view(pair.get(1, memoryview(b"")))).decode("utf-8", "replace")
            if name in wanted and 2 in pair and (value := _first(_view(pair[2]))) is not None:
                values[name] = value
    return values


def _first(feature: memoryview) -> Value | None:
    """The first value: Feature{1: texts{1: bytes}} or Feature{3: numbers{1: varint, or packed varints}}."""
    for kind, values in _fields(feature):
        for _, value in _fields(_view(values)):
            if kind == 1:
                return _view(value)
            if kind == 3:
                number = value if isinstance(value, int) else _varint(value, 0)[0]
                return number - (1 << 64) if number >> 63 else number
    return None


def _fields(message: memoryview) -> Iterator[tuple[int, Value]]:
    """Yield the field numbers and values of a protocol-buffer message."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        if tag & 7 == 0:
            value: Value
            value, at = _varint(message, at)
        elif tag & 7 in (1, 2, 5):
            size, at = _varint(message, at) if tag & 7 == 2 else (8 if tag & 7 == 1 else 4, at)
            if at + size > len(message):
                raise ValueError("the record is not a tf.train.Example")
            value, at = message[at : at + size], at + size
        else:
            raise ValueError("the record is not a tf.train.Example")
        yield tag >> 3, value


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """A number in groups of 7 bits, the lowest first, and the place after it."""
    number = 0
    for i, byte in enumerate(message[at : at + 10]):
        number |= (byte & 127) << 7 * i
        if byte < 128:
            return number & 0xFFFFFFFFFFFFFFFF, at + i + 1
    raise ValueError("the record is not a tf.train.Example")


def _view(value: Value) -> memoryview:
    if isinstance(value, int):
        raise ValueError("the record is not a tf.train.Example")
    return value
