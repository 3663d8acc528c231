"""MNIST and Fashion-MNIST: IDX files, packed (.gz) or not.

The checksums are those of the unpacked files, because mirrors and distributions (Debian) pack them again.
"""

import gzip
import hashlib
import math
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from metapl.data.reading import files
from metapl.data.reading.decode import DataError
from metapl.data.reading.files import Folders
from metapl.data.sources.source import InMemory, Part, PictureConfig, Source

_MAX_BYTES = 1 << 30  # MNIST has 47 MB; a damaged header can claim any size
_FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}


@dataclass(frozen=True)
class _Idx(PictureConfig):
    folder: ClassVar[str]
    page: ClassVar[str]
    class_names: ClassVar[tuple[str, ...]]
    md5: ClassVar[dict[str, str]]

    verify: bool = True
    """Compare the files with the known checksums."""


@dataclass(frozen=True)
class Mnist(_Idx):
    """70,000 handwritten digits, grey, 28×28."""

    name: ClassVar[str] = "mnist"
    mirrored: ClassVar[bool] = False
    folder: ClassVar[str] = "mnist"
    page: ClassVar[str] = "the MNIST page of Yann LeCun or one of its mirrors"
    class_names: ClassVar[tuple[str, ...]] = tuple("0123456789")
    md5: ClassVar[dict[str, str]] = {
        "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
        "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
        "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
        "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
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
        "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
        "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
        "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
        "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
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
            raise DataError(
                f"{config.name}: {labels_name} has the label {labels.max()}, but there are only "
                f"{len(config.class_names)} classes"
            )
        parts[part] = Part(InMemory(images[..., None], part), labels.astype(np.int32))
    return Source(parts, config.class_names)


def _read_file(config: _Idx, name: str, axes: int, folders: Folders) -> NDArray[np.uint8]:
    # MNIST and Fashion-MNIST have the same file names: the folder named after the source is searched first.
    choices = [f"{place}{name}{suffix}" for place in (f"{config.folder}/", "") for suffix in ("", ".gz")]
    path = files.find(folders, *choices)
    if path is None:
        raise files.missing(config.name, [f"{config.folder}/{name}(.gz)"], config.page, folders)
    with files.open_file(path) as file:
        unpacked = cast(BinaryIO, gzip.GzipFile(fileobj=file)) if path.suffix == ".gz" else file
        try:
            return _parse(unpacked, axes, path, config.md5[name] if config.verify else None)
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f"{path} cannot be unpacked: {error}") from None


def _parse(file: BinaryIO, axes: int, path: Path, md5: str | None) -> NDArray[np.uint8]:
    """Read two zero bytes, the type (8: bytes), the number of axes, each axis' size as a big-endian word, the bytes."""
    header = file.read(4 + 4 * axes)
    if len(header) < 4 + 4 * axes or header[:4] != bytes([0, 0, 8, axes]):
        raise DataError(f"{path} is not an IDX file of bytes with {axes} axes")
    shape = tuple(int(size) for size in np.frombuffer(header, ">u4", offset=4))
    size = math.prod(shape)
    if not 0 < size <= _MAX_BYTES:
        raise DataError(f"{path} claims {size:,} bytes; 1 to {_MAX_BYTES:,} are allowed")
    data = file.read(size + 1)  # one more, to check that the file ends there
    if len(data) != size:
        compared = "fewer" if len(data) < size else "more"
        raise DataError(f"{path} has {compared} than the {size:,} bytes that its header claims")
    if md5 is not None:
        files.compare_md5(hashlib.md5(header + data, usedforsecurity=False).hexdigest(), md5, str(path))
    return np.frombuffer(data, np.uint8).reshape(shape)
