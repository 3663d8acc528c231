"""Index a tar file of samples, as the library webdataset writes them, with Python's tarfile; nothing in it is run.

The members of a sample have the same name up to the first dot: cat_17.jpg, cat_17.cls, cat_17.json. webdataset itself
reads a shard from front to back and shuffles a window of it, so a batch would not be a function of the step. Its
decoders also unpickle some members. So members that are pickles are refused here.
"""

import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from metapl.data.reading.decode import SUFFIXES, DataError
from metapl.data.reading.packed import Place

_PICKLES = frozenset({"pyd", "pickle", "pkl", "pth", "pt"})  # webdataset's names for what Python's pickle has written
_MAX_TEXT = 1 << 20  # bytes of a member that is read while indexing: a label, or a JSON
_BLOCK = 512


class Sample(NamedTuple):
    """One sample: its name, its pictures, and the text of its wanted members."""

    key: str
    pictures: dict[str, Place]  # by what follows the first dot, in small letters
    texts: dict[str, bytes]


def samples(path: Path, wanted: str = "") -> Iterator[Sample]:
    """Yield the samples of a tar file in order, with the text of those members whose ending is `wanted`."""
    seen: set[str] = set()
    sample: Sample | None = None
    for place, text in _members(path, wanted):
        key, ending = _parts(place.member)
        if sample is None or key != sample.key:
            if key in seen:
                raise DataError(f"{path}: the sample {key!r} comes twice, or its members are not next to each other")
            if sample is not None:
                yield sample
            seen.add(key)
            sample = Sample(key, {}, {})
        if ending in sample.pictures or ending in sample.texts:
            raise DataError(f"{path}: the member {place.member!r} comes twice")
        if text is not None:
            sample.texts[ending] = text
        if is_picture(ending):
            sample.pictures[ending] = place
    if sample is not None:
        yield sample


def is_picture(ending: str) -> bool:
    """Whether a member with this ending is a picture."""
    return "." + ending.rpartition(".")[2] in SUFFIXES


def _parts(member: str) -> tuple[str, str]:
    """A member's sample, and its ending: what follows the first dot of the last part of its path."""
    folder, slash, name = member.rpartition("/")
    key, _, ending = name.partition(".")
    return f"{folder}{slash}{key}", ending.lower()


def _members(path: Path, wanted: str) -> Iterator[tuple[Place, bytes | None]]:
    """Yield where each regular file of the archive is; the bytes of those with the wanted ending."""
    try:
        with path.open("rb") as file, tarfile.open(fileobj=file, mode="r:") as archive:
            for member in archive:
                if member.isdir() or _is_hidden(member.name):
                    continue
                _check(path, member)
                place = Place(member.name, member.offset_data, member.size)
                is_wanted = bool(wanted) and _parts(member.name)[1] == wanted
                yield place, _text(path, file, place) if is_wanted else None
            _check_end(path, file, archive.offset)
    except DataError:
        raise
    except (tarfile.TarError, OSError, ValueError, OverflowError, EOFError) as error:
        raise DataError(f"{path} cannot be read as a tar file: {_reason(path, error)}") from None


def _check(path: Path, member: tarfile.TarInfo) -> None:
    """Refuse what may run code, and what has no bytes of its own in the archive."""
    ending = _parts(member.name)[1].rpartition(".")[2]
    if ending in _PICKLES:
        raise DataError(
            f"{path} has the member {member.name!r}: a pickle can run code when it is read; write the shard without it"
        )
    if not member.isreg() or member.issparse():
        raise DataError(f"{path} has the member {member.name!r}, which is a link or no plain file; write it as a file")


def _text(path: Path, file: BinaryIO, place: Place) -> bytes:
    if place.size > _MAX_TEXT:
        raise DataError(f"{path}: the member {place.member!r} has {place.size:,} bytes, too many for a label")
    before = file.tell()
    file.seek(place.offset)
    text = file.read(place.size)
    file.seek(before)
    return text


def _check_end(path: Path, file: BinaryIO, end: int) -> None:
    """Refuse a file that does not end with a block of zeros: tarfile takes a damaged header for the end."""
    file.seek(end)
    block = file.read(_BLOCK)
    if block != bytes(_BLOCK):
        what = "is cut off" if len(block) < _BLOCK else "is damaged"
        raise DataError(f"{path} {what} at byte {end:,}: the end of a tar file is missing; get or write it again")


def _is_hidden(name: str) -> bool:
    """Whether a file belongs to a system and not to the data: .DS_Store, ._picture.jpg."""
    return name.rpartition("/")[2].startswith(".")


def _reason(path: Path, error: Exception) -> str:
    try:
        with path.open("rb") as file:
            start = file.read(6)
    except OSError:
        start = b""
    if start.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"(\xb5/\xfd")):
        return "it is compressed, so no picture can be read by itself; unpack it to a plain .tar"
    return str(error) or type(error).__name__
