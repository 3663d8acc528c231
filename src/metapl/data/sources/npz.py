"""Arrays in an .npz file: `images` and `labels`, and optionally `unlabeled`, `val_…`, `test_…` and `class_names`."""

import math
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from annotated_types import Gt
from numpy.typing import NDArray

from metapl.data.reading import files, npy_header
from metapl.data.reading.decode import DataError
from metapl.data.reading.files import Folders
from metapl.data.sources.dataset import Role
from metapl.data.sources.source import InMemory, Part, PictureConfig, Source, unlabeled_labels

# Role -> the names of its arrays of pictures and of labels; unlabelled pictures have no labels.
KEYS_OF_ROLE: dict[Role, tuple[str, str]] = {
    "labeled": ("images", "labels"),
    "val": ("val_images", "val_labels"),
    "test": ("test_images", "test_labels"),
    "unlabeled": ("unlabeled", ""),
}
_KEYS = frozenset({"class_names"}.union(*KEYS_OF_ROLE.values()) - {""})
# What a damaged archive or array makes zipfile, zlib and NumPy raise.
_LONGEST = 200  # letters of a library's message: some repeat what a file claims
_DAMAGE = (*npy_header.DAMAGE, zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError)


@dataclass(frozen=True)
class Npz(PictureConfig):
    """Pictures of one size as NumPy arrays."""

    name: ClassVar[str] = "npz"

    file: str = "pictures.npz"
    """The file: images [N, H, W, C] of bytes (C may be left out), labels [N] of whole numbers, −1: unlabelled."""
    max_gigabytes: Annotated[float, Gt(0)] = 8.0
    """Refuse a file that unpacks to more gigabytes."""


def read(config: Npz, folders: Folders) -> Source:
    """Read and check every array."""
    path = files.locate(config.name, config.file, folders)
    with files.open_file(path) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                _check_sizes(archive, config.max_gigabytes * 1e9, path)
            file.seek(0)
            with np.load(file, allow_pickle=False) as content:
                arrays = {key: content[key] for key in content.files}
        except _DAMAGE as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"{path} cannot be read: {str(error)[:_LONGEST]}") from None
    return _source(arrays, path)


def _check_sizes(archive: zipfile.ZipFile, limit: float, path: Path) -> None:
    """Refuse unknown arrays, and more bytes than the limit, by the headers: before anything is unpacked."""
    total = 0
    for entry in archive.infolist():
        key = entry.filename.removesuffix(".npy")
        if key not in _KEYS:
            raise DataError(f"{path} has an array {key!r}; it takes {', '.join(sorted(_KEYS))}")
        with archive.open(entry) as member:
            header = npy_header.read_header(member)
        total += max(entry.file_size, math.prod(header.shape) * header.dtype.itemsize)
    if total > limit:
        raise DataError(f"{path} unpacks to {total / 1e9:.1f} GB, more than max_gigabytes ({limit / 1e9:g})")


def _source(arrays: Mapping[str, NDArray[Any]], path: Path) -> Source:
    parts: dict[str, Part] = {}
    for role, (images_key, labels_key) in KEYS_OF_ROLE.items():
        if role == "unlabeled" and images_key in arrays:
            images = _images(arrays[images_key], images_key, path)
            parts[role] = Part(InMemory(images, role), unlabeled_labels(len(images)))
        elif role == "labeled":
            parts["train"] = _part(arrays, images_key, labels_key, "train", path)
        elif images_key in arrays or labels_key in arrays:
            parts[role] = _part(arrays, images_key, labels_key, role, path)
    sizes = {name: part.images[0].shape for name, part in parts.items() if len(part.images)}
    if len(set(sizes.values())) > 1:
        raise DataError(f"{path}: all pictures must have one size, got {sizes}")
    highest = max(int(part.labels.max(initial=-1)) for part in parts.values())
    if "class_names" not in arrays and highest >= max(len(part.labels) for part in parts.values()):
        raise DataError(f"{path}: the highest label is {highest}, more than the number of pictures; give class_names")
    names = tuple(str(name) for name in arrays.get("class_names", np.arange(highest + 1)).ravel())
    if not 0 <= highest < len(names):
        raise DataError(f"{path}: the highest label is {highest}, but class_names has {len(names)} names")
    return Source(parts, names)


def _part(arrays: Mapping[str, NDArray[Any]], images_key: str, labels_key: str, part: str, path: Path) -> Part:
    if lacking := [key for key in (images_key, labels_key) if key not in arrays]:
        raise DataError(f"{path} has no array {' and no '.join(lacking)}")
    images, labels = _images(arrays[images_key], images_key, path), arrays[labels_key]
    if labels.shape != (len(images),) or not np.issubdtype(labels.dtype, np.integer):
        raise DataError(
            f"{path}: {labels_key} must be {len(images)} whole numbers, got {labels.dtype} {list(labels.shape)}"
        )
    if labels.min(initial=0) < (-1 if part == "train" else 0) or labels.max(initial=0) > 2**31 - 1:
        raise DataError(f"{path}: {labels_key} has numbers that are not labels (from {labels.min()} to {labels.max()})")
    return Part(InMemory(images, part), labels.astype(np.int32))


def _images(array: NDArray[Any], key: str, path: Path) -> NDArray[np.uint8]:
    images = array[..., None] if array.ndim == 3 else array
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[-1] not in (1, 3) or 0 in images.shape[1:]:
        raise DataError(
            f"{path}: {key} must be bytes [N, H, W] or [N, H, W, 1 or 3], got {array.dtype} {list(array.shape)}"
        )
    return images
