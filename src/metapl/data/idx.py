"""MNIST and Fashion-MNIST: IDX files, packed (.gz) or not."""

import gzip
import math
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from metapl.data import files
from metapl.data.decode import DataError
from metapl.data.files import Folders
from metapl.data.source import InMemory, Part, PictureConfig, Source

_MAX_BYTES = 1 << 30  # MNIST has 47 MB; a header can claim anything
_FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}


@dataclass(frozen=True)
class _Idx(PictureConfig):
    folder: ClassVar[str]
    page: ClassVar[str]
    class_names: ClassVar[tuple[str, ...]]
    md5: ClassVar[dict[str, str]]  # of the packed files

    verify: bool = True
    """Compare packed files with the known checksums."""


@dataclass(frozen=True)
class Mnist(_Idx):
    """70,000 handwritten digits, grey, 28×28."""

    name: ClassVar[str] = "mnist"
    folder: ClassVar[str] = "mnist"
    page: ClassVar[str] = "the MNIST page of Yann LeCun or one of its mirrors"
    class_names: ClassVar[tuple[str, ...]] = tuple("0123456789")
    md5: ClassVar[dict[str, str]] = {
        "train-images-idx3-ubyte": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "train-labels-idx1-ubyte": "d53e105ee54ea40749a09fcbcd1e9432",
        "t10k-images-idx3-ubyte": "9fb629c4189551a2d022fa330f9573f3",
        "t10k-labels-idx1-ubyte": "ec29112dd5afa0611ce80d1b7f02629c",
    }


@dataclass(frozen=True)
class FashionMnist(_Idx):
    """70,000 pieces of clothing, grey, 28×28."""

    name: ClassVar[str] = "fashion_mnist"
    folder: ClassVar[str] = "fashion-mnist"
    page: ClassVar[str] = "the Fashion-MNIST repository of Zalando Research (Debian's package is dataset-fashion-mnist)"
    class_names: ClassVar[tuple[str, ...]] = (
        *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
        *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
    )
    md5: ClassVar[dict[str, str]] = {
        "train-images-idx3-ubyte": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "train-labels-idx1-ubyte": "25c81989df183df01b3e8a0aad5dffbe",
        "t10k-images-idx3-ubyte": "bef4ecab320f06d8554ea6380940ec79",
        "t10k-labels-idx1-ubyte": "bb300cfdad3c16e7a12a480ee83cd310",
    }


def read(config: _Idx, folders: Folders) -> Source:
    """Read both parts."""
    parts = {}
    for part, (images_name, labels_name) in _FILES.items():
        images = _read_file(config, images_name, 3, folders)
        labels = _read_file(config, labels_name, 1, folders)
        if len(images) != len(labels):
            raise DataError(
                f"{config.name}: {images_name} has {len(images)} pictures, {labels_name} {len(labels)} labels"
            )
        if labels.max(initial=0) >= len(config.class_names):
            raise DataError(f"{config.name}: {labels_name} has the label {labels.max()}, above the classes' last")
        parts[part] = Part(InMemory(images[..., None], part), labels.astype(np.int32))
    return Source(parts, config.class_names)


def _read_file(config: _Idx, name: str, axes: int, folders: Folders) -> NDArray[np.uint8]:
    # Both kinds of file have the same names: a folder of the source's own comes before the bare name.
    choices = [f"{place}{name}{suffix}" for place in (f"{config.folder}/", "") for suffix in ("", ".gz")]
    path = files.find(folders, *choices)
    if path is None:
        raise files.missing(config.name, [f"{config.folder}/{name}(.gz)"], config.page, folders)
    packed = path.suffix == ".gz"
    with files.open_file(path, config.md5[name] if packed and config.verify else None) as file:
        try:
            return _parse(cast(BinaryIO, gzip.GzipFile(fileobj=file)) if packed else file, axes, path)
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f"{path} cannot be unpacked: {error}") from None


def _parse(file: BinaryIO, axes: int, path: Path) -> NDArray[np.uint8]:
    """Two zero bytes, the type (8: bytes), the number of axes, each axis' size as a big-endian word, the bytes."""
    header = file.read(4 + 4 * axes)
    if len(header) < 4 + 4 * axes or header[:4] != bytes([0, 0, 8, axes]):
        raise DataError(f"{path} is not an IDX file of bytes with {axes} axes")
    shape = tuple(int(size) for size in np.frombuffer(header, ">u4", offset=4))
    size = math.prod(shape)
    if not 0 < size <= _MAX_BYTES:
        raise DataError(f"{path} claims {size:,} bytes, there may be 1 to {_MAX_BYTES:,}")
    data = file.read(size + 1)  # one more, to see that it ends there
    if len(data) != size:
        raise DataError(f"{path} {'is cut off' if len(data) < size else 'goes on'} after the {size:,} bytes it claims")
    return np.frombuffer(data, np.uint8).reshape(shape)
