"""Arrays in an .npz file: `images` and `labels`, and, where there are any, `unlabeled`, `val_…`, `test_…`."""

import math
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from annotated_types import Gt
from numpy.lib import format as npy
from numpy.typing import NDArray

from metapl.data.reading import files
from metapl.data.reading.decode import DataError
from metapl.data.reading.files import Folders
from metapl.data.sources.source import InMemory, Part, PictureConfig, Source, unlabeled_labels

_PARTS = {"train": ("images", "labels"), "val": ("val_images", "val_labels"), "test": ("test_images", "test_labels")}
# What a damaged archive or header makes zipfile, zlib and NumPy raise; a header's text goes through Python's tokenizer.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    tokenize.TokenError,
    SyntaxError,
    ValueError,
    EOFError,
    OSError,
    NotImplementedError,
    RuntimeError,
)
_KEYS = frozenset({"unlabeled", "class_names"}.union(*_PARTS.values()))


@dataclass(frozen=True)
class Npz(PictureConfig):
    """Pictures of one size as NumPy arrays."""

    name: ClassVar[str] = "npz"

    file: str = "pictures.npz"
    """The file: images [N, H, W, C] of bytes (C may be left out), labels [N] of whole numbers, −1 for none."""
    max_gigabytes: Annotated[float, Gt(0)] = 8.0
    """Refuse a file that unpacks to more."""


def read(config: Npz, folders: Folders) -> Source:
    """Read and check every array."""
    path = files.locate(config.name, config.file, folders)
    with files.open_file(path) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                _check_sizes(archive, config.max_gigabytes * 1e9, path)
            file.seek(0)
            with np.load(file, allow_pickle=False) as found:
                arrays = {key: found[key] for key in found.files}
        except _DAMAGE as error:
            raise error if isinstance(error, DataError) else DataError(f"{path} cannot be read: {error}") from None
    return _source(arrays, path)


def _check_sizes(archive: zipfile.ZipFile, limit: float, path: Path) -> None:
    """Before anything is unpacked: what the archive and each array's header claim must fit, and not be too much."""
    total = 0
    for entry in archive.infolist():
        key = entry.filename.removesuffix(".npy")
        if key not in _KEYS:
            raise DataError(f"{path} has an array {key!r}; it takes {', '.join(sorted(_KEYS))}")
        with archive.open(entry) as member:
            version = npy.read_magic(member)
            header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, _, dtype = header(member)
        total += max(entry.file_size, math.prod(shape) * dtype.itemsize)
    if total > limit:
        raise DataError(f"{path} unpacks to {total / 1e9:.1f} GB, more than max_gigabytes ({limit / 1e9:g})")


def _source(arrays: Mapping[str, NDArray[Any]], path: Path) -> Source:
    parts = {}
    for part, (images_key, labels_key) in _PARTS.items():
        if images_key in arrays or labels_key in arrays or part == "train":
            parts[part] = _part(arrays, images_key, labels_key, part, path)
    if "unlabeled" in arrays:
        images = _images(arrays["unlabeled"], "unlabeled", path)
        parts["unlabeled"] = Part(InMemory(images, "unlabeled"), unlabeled_labels(len(images)))
    sizes = {part: found.images[0].shape for part, found in parts.items() if len(found.images)}
    if len(set(sizes.values())) > 1:
        raise DataError(f"{path}: all pictures must be of one size, they are {sizes}")
    highest = max(int(part.labels.max(initial=-1)) for part in parts.values())
    if "class_names" not in arrays and highest >= max(len(part.labels) for part in parts.values()):
        raise DataError(f"{path}: the highest label is {highest}, more than there are pictures; give class_names")
    names = tuple(str(name) for name in arrays.get("class_names", np.arange(highest + 1)).ravel())
    if not 0 <= highest < len(names):
        raise DataError(f"{path}: the highest label is {highest}, and class_names has {len(names)} names")
    return Source(parts, names)


def _part(arrays: Mapping[str, NDArray[Any]], images_key: str, labels_key: str, part: str, path: Path) -> Part:
    if lacking := [key for key in (images_key, labels_key) if key not in arrays]:
        raise DataError(f"{path} has no array {' and no '.join(lacking)}")
    images, labels = _images(arrays[images_key], images_key, path), arrays[labels_key]
    if labels.shape != (len(images),) or not np.issubdtype(labels.dtype, np.integer):
        raise DataError(
            f"{path}: {labels_key} must be {len(images)} whole numbers, it is {labels.dtype} {list(labels.shape)}"
        )
    if labels.min(initial=0) < (-1 if part == "train" else 0) or labels.max(initial=0) > 2**31 - 1:
        raise DataError(f"{path}: {labels_key} has numbers that are no labels (from {labels.min()} to {labels.max()})")
    return Part(InMemory(images, part), labels.astype(np.int32))


def _images(array: NDArray[Any], key: str, path: Path) -> NDArray[np.uint8]:
    images = array[..., None] if array.ndim == 3 else array
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[-1] not in (1, 3) or 0 in images.shape[1:]:
        raise DataError(
            f"{path}: {key} must be bytes [N, H, W] or [N, H, W, 1 or 3], it is {array.dtype} {list(array.shape)}"
        )
    return images
