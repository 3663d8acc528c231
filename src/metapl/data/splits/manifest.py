"""What a split holds, as a dict for JSON with checksums: stored with every run, so that none resumes on other data."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from metapl.data.reading.decode import DataError
from metapl.data.reading.records import Records
from metapl.data.sources.source import Files, Images, InMemory, Source
from metapl.data.splits.split import ROLES, PartRows, Role, Split, count, labels_of

_BLOCK = 4096  # pictures hashed at a time


def make(source: Source, split: Split, images: Mapping[Role, Images]) -> dict[str, Any]:
    """Describe the split; `images` are the pictures of each role."""
    content: dict[str, Any] = {
        "source": split.spec.source,
        "split": split.spec.text,
        "class_names": list(source.class_names),
        **{role: _role(source, role, split.rows(role), images[role]) for role in ROLES},
    }
    return content | {"checksum": _sha256([json.dumps(content, sort_keys=True).encode()])}


def check_manifest(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Refuse to go on with data that are not those of before; say what changed."""
    if old.get("checksum") == new["checksum"]:
        return
    changes = [
        f"{key} was {old.get(key)!r}, is {new[key]!r}" for key in ("source", "split") if old.get(key) != new[key]
    ]
    if old.get("class_names") != new["class_names"]:
        changes.append("the classes changed")
    for role in ROLES:
        stored = old.get(role)
        changes += _changes(role, stored if isinstance(stored, Mapping) else {}, new[role])
    told = "; ".join(changes) or "the stored manifest itself was edited"
    raise DataError(f"the data are not those that the run began with: {told}")


def _role(source: Source, role: str, rows: PartRows, images: Images) -> dict[str, Any]:
    labels = labels_of(source, rows)
    found: dict[str, Any] = {
        "count": count(rows),
        "rows_sha256": _sha256(_bytes_of_rows(rows)),
        "images_sha256": _sha256(bytes_of_images(images)),
    }
    if role != "unlabeled":  # what labels those have is nobody's business
        found["class_counts"] = np.bincount(labels, minlength=len(source.class_names)).tolist()
        found["labels_sha256"] = _sha256([labels.astype("<i4").tobytes()])
    return found


def _changes(role: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    if old.get("count") != new["count"]:
        return [f"{role} had {old.get('count')} pictures, has {new['count']}"]
    words = {
        "rows_sha256": "other pictures are chosen",
        "labels_sha256": "labels",
        "images_sha256": "pictures' content",
    }
    changed = [text for key, text in words.items() if old.get(key) != new.get(key)]
    return [f"{role} changed ({', '.join(changed)})"] if changed else []


def _bytes_of_rows(rows: PartRows) -> Iterable[bytes]:
    for part, indices in rows:
        yield f"{part}:{len(indices)}:".encode()
        yield indices.astype("<i8").tobytes()


def bytes_of_images(images: Images) -> Iterable[bytes | memoryview]:
    """The pixels where they are in memory; else what is cheap and changes with them: names, places and sizes."""
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
        case _:
            raise TypeError(f"pictures of the kind {type(images).__name__} have no checksum")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None


def _sha256(blocks: Iterable[bytes | memoryview]) -> str:
    digest = hashlib.sha256()
    for block in blocks:
        digest.update(block)
    return digest.hexdigest()
