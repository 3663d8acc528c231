"""Describe a split as a dict for JSON, with checksums. Every run stores it, so that no run resumes on other data.

`checksum` covers names, sizes and labels, and the pixels of pictures in memory. `contents_crc32` covers the content of
picture files, since files of one name and one size may differ. Manifests of version 0.1.0 do not have that key.
"""

import hashlib
import json
import os
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from metapl.data.reading.decode import DataError, open_without_waiting
from metapl.data.reading.packed import Packed
from metapl.data.reading.records import Records
from metapl.data.sources.dataset import ROLES, Role
from metapl.data.sources.source import Files, Images, InMemory, Source
from metapl.data.splits.split import PartRows, Split, count, labels_of

CONTENTS = "contents_crc32"

_BLOCK = 4096  # pictures hashed at a time
_SMALL = 1 << 28  # bytes: up to 256 MB of files are read whole
_EDGE = 1 << 16  # bytes: of larger sets, so much at the start and at the end of a file
_MOST_FILES = 10_000  # of larger sets, so many are read, at equal distances


def make(source: Source, split: Split, images: Mapping[Role, Images]) -> dict[str, Any]:
    """Describe the split; `images` are the pictures of each role."""
    content: dict[str, Any] = {
        "source": split.spec.source,
        "split": split.spec.text,
        "class_names": list(source.class_names),
        **{role: _describe_role(source, role, split.rows(role), images[role]) for role in ROLES},
    }
    checksum = sha256([json.dumps(content, sort_keys=True).encode()])
    return content | {"checksum": checksum, CONTENTS: _contents(images)}


def check_manifest(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Raise DataError, which says what changed, unless both manifests describe the same data."""
    changes = [] if old.get("checksum") == new["checksum"] else _changes(old, new)
    changes = changes or _changed_contents(old.get(CONTENTS), new.get(CONTENTS))
    if changes:
        raise DataError(f"the data are not those that the run started with: {'; '.join(changes)}")


def _describe_role(source: Source, role: Role, rows: PartRows, images: Images) -> dict[str, Any]:
    labels = labels_of(source, rows)
    description: dict[str, Any] = {
        "count": count(rows),
        "rows_sha256": sha256(_bytes_of_rows(rows)),
        "images_sha256": sha256(bytes_of_images(images)),
    }
    if role != "unlabeled":  # their true labels must not influence anything
        description["class_counts"] = np.bincount(labels, minlength=len(source.class_names)).tolist()
        description["labels_sha256"] = sha256([labels.astype("<i4").tobytes()])
    return description


def _changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    changes = [
        f"{key} was {old.get(key)!r}, is {new[key]!r}" for key in ("source", "split") if old.get(key) != new[key]
    ]
    if old.get("class_names") != new["class_names"]:
        changes.append("the classes changed")
    for role in ROLES:
        stored = old.get(role)
        changes += _changes_of_role(role, stored if isinstance(stored, Mapping) else {}, new[role])
    return changes or ["the stored manifest itself was edited"]


def _changes_of_role(role: Role, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    if old.get("count") != new["count"]:
        return [f"{role} had {old.get('count')} pictures, has {new['count']}"]
    words = {
        "rows_sha256": "other pictures are chosen",
        "labels_sha256": "labels",
        "images_sha256": "pictures' content",
    }
    changed = [text for key, text in words.items() if old.get(key) != new.get(key)]
    return [f"{role} changed ({', '.join(changed)})"] if changed else []


def _changed_contents(old: object, new: object) -> list[str]:
    """Compare the roles that both have: manifests of 0.1.0, and roles of pictures in memory, have none."""
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return []
    changed = [role for role in ROLES if role in old and role in new and old[role] != new[role]]
    return [f"{role} changed (pictures' content, though names and sizes are the same)" for role in changed]


def _bytes_of_rows(rows: PartRows) -> Iterable[bytes]:
    for part, indices in rows:
        yield f"{part}:{len(indices)}:".encode()
        yield indices.astype("<i8").tobytes()


def bytes_of_images(images: Images) -> Iterable[bytes | memoryview]:
    """The pixels of pictures in memory; of others the names, places and sizes, which cost little to read."""
    match images:
        case InMemory(array=array):
            yield str(array.shape).encode()
            for start in range(0, len(array), _BLOCK):
                yield np.ascontiguousarray(array[start : start + _BLOCK]).data
        case Files(paths=paths, root=root):
            for path in paths:
                name = path.relative_to(root) if path.is_relative_to(root) else path
                yield f"{name.as_posix()}\0{_size(path)}\0".encode("utf-8", "surrogateescape")
        case Records():
            for path in images.shards:
                yield f"{path.name}\0{_size(path)}\0".encode("utf-8", "surrogateescape")
            yield images.shard.astype("<i4").tobytes()
            yield images.offset.astype("<i8").tobytes()
        case Packed():
            for path in images.shards:
                yield f"{path.name}\0{_size(path)}\0".encode("utf-8", "surrogateescape")
            yield images.shard.astype("<i4").tobytes()
            yield b"\0".join(images.members.tolist())
            yield images.size.astype("<i8").tobytes()
        case _:
            raise TypeError(f"pictures of type {type(images).__name__} have no checksum")


def _contents(images: Mapping[Role, Images]) -> dict[str, int]:
    """A CRC-32 of the files' content for each role whose pictures are in files.

    Small sets are read whole. Of larger ones, the edges of up to 10,000 files are: compressed pictures of one size
    that are not equal differ there.
    """
    paths = {role: _paths(of_role) for role, of_role in images.items()}
    total = sum(_size(path) for path in set().union(*paths.values()))
    edge, most = (total, max(map(len, paths.values()))) if total <= _SMALL else (_EDGE, _MOST_FILES)
    known: dict[Path, int] = {}  # the same file may have two roles
    crcs: dict[str, int] = {}
    for role, of_role in paths.items():
        crc = 0
        spread = np.linspace(0, len(of_role) - 1, min(len(of_role), most)).astype(int)
        for path in (of_role[row] for row in np.unique(spread).tolist()):
            if path not in known:
                known[path] = zlib.crc32(_edges(path, edge))
            crc = zlib.crc32(known[path].to_bytes(4, "little"), crc)
        if of_role:
            crcs[role] = crc
    return crcs


def _paths(images: Images) -> tuple[Path, ...]:
    match images:
        case Files(paths=paths):
            return paths
        case Records() | Packed():
            return images.shards
    return ()


def _edges(path: Path, edge: int) -> bytes:
    """The first and the last bytes of a file; empty if it cannot be read, since decoding will report that."""
    try:
        file = open_without_waiting(path, os.O_RDONLY)
        try:
            size = os.fstat(file).st_size
            start = os.read(file, min(edge, size))
            return start + (os.pread(file, edge, max(edge, size - edge)) if size > edge else b"")
        finally:
            os.close(file)
    except OSError:
        return b""


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None


def sha256(blocks: Iterable[bytes | memoryview]) -> str:
    """Hash blocks of bytes, one after another."""
    digest = hashlib.sha256()
    for block in blocks:
        digest.update(block)
    return digest.hexdigest()


def same_pictures(manifest: Mapping[str, Any]) -> bool:
    """Whether the unlabelled pictures are the labelled ones, because the data have no others."""
    rows = [manifest.get(role, {}).get("rows_sha256") for role in ("labeled", "unlabeled")]
    return rows[0] is not None and rows[0] == rows[1]
