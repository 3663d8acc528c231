"""CIFAR-10 and CIFAR-100: the official python batches or the binary version, unpacked or as the .tar.gz.

Pictures keep the order of the files, data_batch_1 to data_batch_5: the paper's split needs it (Appendix C.1).
"""

import io
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.data.reading import channels, files
from metapl.data.reading.decode import DataError
from metapl.data.reading.files import Folders
from metapl.data.reading.unpickle import load_dict
from metapl.data.sources.source import InMemory, Part, PictureConfig, Source

_PIXELS = 3 * 32 * 32
_MAX_FILE = 200_000_000  # the largest file, CIFAR-100's training file, has 155 MB
_PAGE = "the CIFAR page of Alex Krizhevsky (University of Toronto)"


class _Layout(NamedTuple):
    """One form in which the data are published."""

    folder: str
    archive: str
    archive_md5: str
    train: dict[str, str | None]  # file -> md5; None: the page gives none
    test: dict[str, str | None]
    names: str  # the file with the names of the classes
    names_md5: str | None = None
    label_bytes: int = 0  # of the binary version; the class is the last of them


@dataclass(frozen=True)
class _Cifar(PictureConfig):
    layouts: ClassVar[tuple[_Layout, ...]]
    label_key: ClassVar[str]
    names_key: ClassVar[str]

    verify: bool = True
    """Compare the files with the official checksums. The unpacked binary version has none."""


@dataclass(frozen=True)
class Cifar10(_Cifar):
    """60,000 pictures of 32×32 in 10 classes."""

    name: ClassVar[str] = "cifar10"
    label_key: ClassVar[str] = "labels"
    names_key: ClassVar[str] = "label_names"
    layouts: ClassVar[tuple[_Layout, ...]] = (
        _Layout(
            folder="cifar-10-batches-py",
            archive="cifar-10-python.tar.gz",
            archive_md5="c58f30108f718f92721af3b95e74349a",
            train={
                "data_batch_1": "c99cafc152244af753f735de768cd75f",
                "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
                "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
                "data_batch_4": "634d18415352ddfa80567beed471001a",
                "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
            },
            test={"test_batch": "40351d587109b95175f43aff81a1287e"},
            names="batches.meta",
            names_md5="5ff9c542aee3614f3951f8cda6e48888",
        ),
        _Layout(
            folder="cifar-10-batches-bin",
            archive="cifar-10-binary.tar.gz",
            archive_md5="c32a1d4ab5d03f1284b67883e8d87530",
            train={f"data_batch_{i}.bin": None for i in range(1, 6)},
            test={"test_batch.bin": None},
            names="batches.meta.txt",
            label_bytes=1,
        ),
    )


@dataclass(frozen=True)
class Cifar100(_Cifar):
    """60,000 pictures of 32×32 in 100 classes (the fine labels)."""

    name: ClassVar[str] = "cifar100"
    label_key: ClassVar[str] = "fine_labels"
    names_key: ClassVar[str] = "fine_label_names"
    layouts: ClassVar[tuple[_Layout, ...]] = (
        _Layout(
            folder="cifar-100-python",
            archive="cifar-100-python.tar.gz",
            archive_md5="eb9058c3a382ffc7106e4002c42a8d85",
            train={"train": "16019d7e3df5f24257cddd939b257f8d"},
            test={"test": "f0ef6b0ae62326f3e7ffdfab6717acfc"},
            names="meta",
            names_md5="7973b15100ade9c7d40fb424638fde48",
        ),
        _Layout(
            folder="cifar-100-binary",
            archive="cifar-100-binary.tar.gz",
            archive_md5="03b5dce01913d631647c71ecec9e9cb8",
            train={"train.bin": None},
            test={"test.bin": None},
            names="fine_label_names.txt",
            label_bytes=2,
        ),
    )


def read(config: _Cifar, folders: Folders) -> Source:
    """Read the first form of the data that exists: python before binary, unpacked before packed."""
    for layout in config.layouts:
        if path := files.find(folders, layout.folder, layout.archive):
            with _opener(path, layout, config.verify) as batches:
                return _read(config, layout, batches)
    names = [name for layout in config.layouts for name in (layout.folder, layout.archive)]
    raise files.missing(config.name, names, _PAGE, folders)


def _read(config: _Cifar, layout: _Layout, batches: "_Batches") -> Source:
    class_names = _class_names(config, layout, batches)
    parts = {}
    for part, wanted in (("train", layout.train), ("test", layout.test)):
        # Each batch is freed as soon as it is copied: the peak memory is the data and one batch.
        chunks = (_parse(config, layout, batches, file, md5) for file, md5 in wanted.items())
        pixels, labels = _gather(chunks, len(wanted))
        if labels.min(initial=0) < 0 or labels.max(initial=0) >= len(class_names):
            raise DataError(
                f"{config.name}: {part} has labels outside the {len(class_names)} classes of {layout.names}"
            )
        parts[part] = Part(InMemory(channels.to_last(pixels.reshape(-1, 3, 32, 32)), part), labels)
    return Source(parts, class_names)


def _gather(
    chunks: Iterator[tuple[NDArray[np.uint8], NDArray[np.int32]]], count: int
) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    """Join batches in one array, which is allocated once; batches after the first may be smaller."""
    first, first_labels = next(chunks)
    pixels, labels = np.empty((count * len(first), _PIXELS), np.uint8), [first_labels]
    pixels[: len(first)] = first
    end = len(first)
    del first
    for more, more_labels in chunks:
        if end + len(more) > len(pixels):
            raise DataError("a CIFAR batch has more pictures than the first one")
        pixels[end : end + len(more)] = more
        end += len(more)
        labels.append(more_labels)
    return pixels[:end], np.concatenate(labels)


def _parse(
    config: _Cifar, layout: _Layout, batches: "_Batches", file: str, md5: str | None
) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    with batches.open(file, md5) as opened:
        if layout.label_bytes:
            return _parse_binary(opened, layout.label_bytes, file)
        content = load_dict(opened, file)
    pixels, labels = content.get("data"), content.get(config.label_key)
    if not isinstance(pixels, np.ndarray) or pixels.ndim != 2 or pixels.shape[1] != _PIXELS:
        raise DataError(f"{file} does not have {_PIXELS} bytes for each picture in data")
    if not isinstance(labels, list) or len(labels) != len(pixels) or any(type(label) is not int for label in labels):
        raise DataError(f"{file} has no list {config.label_key} with one whole number for each picture")
    return pixels, np.asarray(labels, np.int32)


def _parse_binary(opened: BinaryIO, label_bytes: int, file: str) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    raw = np.frombuffer(opened.read(), np.uint8)
    if raw.size == 0 or raw.size % (label_bytes + _PIXELS):
        raise DataError(f"{file} has {raw.size} bytes, which is not a whole number of pictures")
    rows = raw.reshape(-1, label_bytes + _PIXELS)
    return rows[:, label_bytes:], rows[:, label_bytes - 1].astype(np.int32)


def _class_names(config: _Cifar, layout: _Layout, batches: "_Batches") -> tuple[str, ...]:
    with batches.open(layout.names, layout.names_md5) as opened:
        if layout.label_bytes:
            names: Any = opened.read().split()
        else:
            names = load_dict(opened, layout.names).get(config.names_key)
    if not isinstance(names, list) or not all(isinstance(name, bytes | str) for name in names):
        raise DataError(f"{layout.names} has no list of class names")
    return tuple(name.decode("utf-8") if isinstance(name, bytes) else name for name in names)


class _Batches:
    """The files of one layout, in a folder or in an archive; archives are read in memory, not unpacked to disk."""

    def __init__(self, path: Path, archive: tarfile.TarFile | None, layout: _Layout, verify: bool) -> None:
        self._path, self._archive, self._layout, self._verify = path, archive, layout, verify

    def open(self, file: str, md5: str | None) -> BinaryIO:
        """Open one file of the layout. A folder's files are checked one by one; an archive was checked as a whole."""
        if self._archive is None:
            if not (self._path / file).is_file():
                raise DataError(f"{self._path} has no {file}; get {self._layout.archive} again from {_PAGE}")
            return files.open_file(self._path / file, md5 if self._verify else None)
        try:
            member = self._archive.getmember(f"{self._layout.folder}/{file}")
            content = self._archive.extractfile(member)
            if content is None or not 0 < member.size <= _MAX_FILE:
                raise DataError(f"{self._path}: {file} is not a file of up to {_MAX_FILE:,} bytes")
            return io.BytesIO(content.read())
        except KeyError:
            raise DataError(f"{self._path} has no {self._layout.folder}/{file}") from None


@contextmanager
def _opener(path: Path, layout: _Layout, verify: bool) -> Iterator[_Batches]:
    if path.is_dir():
        yield _Batches(path, None, layout, verify)
        return
    with files.open_file(path, layout.archive_md5 if verify else None) as file:
        try:
            with tarfile.open(fileobj=file, mode="r:gz") as archive:
                yield _Batches(path, archive, layout, verify)
        except (tarfile.TarError, EOFError, OSError) as error:
            raise DataError(f"{path} cannot be unpacked: {error}") from None
