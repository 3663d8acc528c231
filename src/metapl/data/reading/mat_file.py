"""Check the types in a .mat file (MATLAB 5) before SciPy reads it: its reader, in C, trusts what the file claims.

A damaged file of 2,000 bytes ended the process. The layout is that of MATLAB's
documentation: a header of 128 bytes, then elements, each with a tag (type, bytes). An element is an array or a packed
array; an array consists of elements for its class, its sides, its name and its numbers.
"""

import struct
import zlib
from typing import BinaryIO

_HEADER, _TAG = 128, 8
_ARRAY, _PACKED = 14, 15  # types of elements
_NUMBERS = frozenset({1, 2, 3, 4, 5, 6, 7, 9, 12, 13})  # types of elements that hold numbers: int8 … uint64
_CLASSES = range(6, 16)  # of arrays of numbers: double, single, int8 … uint64
_START = 1024  # bytes of an array, unpacked, that are looked at: enough for all that comes before its numbers


def check(file: BinaryIO) -> None:
    """Raise ValueError if the file holds anything but plain arrays of numbers; rewinds the file."""
    file.seek(0)
    if file.read(_HEADER)[-2:] != b"IM":
        raise ValueError("it is not a MATLAB 5 file with little-endian numbers")
    while tag := file.read(_TAG):
        kind, size = struct.unpack("<II", tag.ljust(_TAG, b"\0"))
        start = file.read(min(size, _START))
        file.seek(size - len(start), 1)
        if kind == _PACKED:
            start = zlib.decompressobj().decompress(start, _START)
            kind, start = struct.unpack("<I", start[:4].ljust(4, b"\0"))[0], start[_TAG:]
        if kind != _ARRAY:
            raise ValueError(f"it has an element of type {kind} where an array should be")
        _check_array(start)
    file.seek(0)


def _check_array(start: bytes) -> None:
    at, kinds = 0, []
    for _ in range(4):  # class, sides, name, numbers
        first, size = struct.unpack("<II", start[at : at + _TAG].ljust(_TAG, b"\0"))
        small = first >> 16  # a tag of four bytes, with up to four bytes of content behind it
        kinds.append(first & 0xFFFF if small else first)
        if len(kinds) == 1 and start[at + _TAG : at + _TAG + 1] not in [bytes([number]) for number in _CLASSES]:
            raise ValueError("it has an array that is not of numbers")
        at += _TAG if small else _TAG + -(-size // 8) * 8
    if not set(kinds) <= _NUMBERS:
        raise ValueError(f"it has an array with elements of types {kinds}")
