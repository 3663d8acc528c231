"""Hash every byte of the pictures: if a picture was swapped for another, its stored features must not be used.

A run's manifest compares edges of at most 10,000 files of large sets (data/splits/manifest.py). Here all files are read
whole: that takes about a hundredth of the time that encoding them does.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from metapl.data.reading.decode import DataError
from metapl.data.sources.source import Files, Images
from metapl.data.splits.assemble import SplitSource
from metapl.data.splits.manifest import bytes_of_images, sha256

BLOCK = 1 << 20  # bytes read at a time


def digests(pictures: SplitSource) -> dict[str, str]:
    """SHA-256 of the pictures of each role; labels, names and folders do not matter."""
    return {role: digest(part.images) for role, part in pictures.roles.items() if len(part.images)}


def digest(images: Images) -> str:
    """SHA-256 of these pictures, in their order."""
    if isinstance(images, Files):
        return sha256(_of_file(path) for path in images.paths)
    shards: tuple[Path, ...] = getattr(images, "shards", ())  # files that hold many pictures each
    return sha256([*map(_of_file, shards), *bytes_of_images(images)])


def _of_file(path: Path) -> bytes:
    """The file's own digest, so that bytes cannot move from one file to the next unnoticed."""
    content = hashlib.sha256()
    try:
        for block in _blocks(path):
            content.update(block)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    return content.digest()


def _blocks(path: Path) -> Iterable[bytes]:
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            yield block
