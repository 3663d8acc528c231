"""A source and a split, put together: the pictures of each role, ready for the loader."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.data import manifest
from metapl.data.dataset import Dataset
from metapl.data.decode import DataError
from metapl.data.fit import centre_square
from metapl.data.records import Records
from metapl.data.source import Files, Images, InMemory, Source
from metapl.data.split import Rows, Split, labels_of

MEMORY_LIMIT = 8_000_000_000  # bytes of pictures decoded into memory, as data.npz's own limit


class PictureDataset(NamedTuple):
    """Pictures by role. Where a source has no val or test, those are empty."""

    labeled: Images
    labels: NDArray[np.int32]
    unlabeled: Images
    test: Images
    test_labels: NDArray[np.int32]
    val: Images
    val_labels: NDArray[np.int32]
    class_names: tuple[str, ...]
    manifest: Mapping[str, Any]
    truth: NDArray[np.int32] | None  # what the source knows of the unlabelled pictures; None where that is nothing
    test_real: NDArray[np.bool_] | None = None  # as in Dataset


def assemble(source: Source, split: Split) -> PictureDataset:
    """Select each role's pictures. What is known of the unlabelled ones goes apart, as truth."""
    images = {role: select(source, getattr(split, role)) for role in manifest.ROLES}
    labels = {role: labels_of(source, getattr(split, role)) for role in manifest.ROLES}
    return PictureDataset(
        labeled=images["labeled"],
        labels=labels["labeled"],
        unlabeled=images["unlabeled"],
        test=images["test"],
        test_labels=labels["test"],
        val=images["val"],
        val_labels=labels["val"],
        class_names=source.class_names,
        manifest=manifest.make(source, split, images),
        truth=labels["unlabeled"] if (labels["unlabeled"] >= 0).any() else None,
    )


def in_memory(dataset: PictureDataset, size: int) -> Dataset:
    """Decode what is not decoded yet: arrays that fit stay with the device for the whole run."""
    has_val = len(dataset.val) > 0
    return Dataset(
        labeled=to_array(dataset.labeled, size),
        labels=dataset.labels,
        unlabeled=to_array(dataset.unlabeled, size),
        test=to_array(dataset.test, size),
        test_labels=dataset.test_labels,
        class_names=dataset.class_names,
        manifest=dataset.manifest,
        val=to_array(dataset.val, size) if has_val else None,
        val_labels=dataset.val_labels if has_val else None,
        test_real=dataset.test_real,
        truth=dataset.truth,
    )


def to_array(images: Images, size: int, rows: Sequence[int] | NDArray[np.int64] | None = None) -> NDArray[np.uint8]:
    """Decode the pictures (or those of `rows`) into one array [N, H, W, C], cut and scaled to `size` unless it is 0."""
    if isinstance(images, InMemory) and not size:
        return images.array if rows is None else images.array[rows]
    wanted = range(len(images)) if rows is None else rows
    _check_memory(images, size, len(wanted))
    pictures = [centre_square(images[int(i)], size) if size else images[int(i)] for i in wanted]
    shapes = sorted({picture.shape for picture in pictures})
    if len(shapes) > 1:
        raise DataError(f"the pictures have {len(shapes)} sizes, from {shapes[0]} to {shapes[-1]}; give a size")
    return np.stack(pictures) if pictures else np.zeros((0, size, size, 3), np.uint8)


def _check_memory(images: Images, size: int, count: int) -> None:
    """Say so before hours of decoding end in a full memory."""
    if not count:
        return
    each = 3 * size * size if size else images[0].size
    if count * each > MEMORY_LIMIT:
        raise DataError(
            f"{count:,} pictures of {each:,} bytes each do not fit into the {MEMORY_LIMIT / 1e9:.0f} GB that decoded "
            "pictures may take; give a smaller size"
        )


def select(source: Source, rows: Rows) -> Images:
    """Pictures of one or more parts as one sequence of the same kind."""
    chosen = [_take(source.parts[part].images, indices) for part, indices in rows]
    if not chosen:
        return _take(source.parts["train"].images, np.arange(0))
    return chosen[0] if len(chosen) == 1 else _join(chosen)


def _take(images: Images, indices: NDArray[np.int64]) -> Images:
    match images:
        case InMemory(array=array, prefix=prefix):
            if len(indices) and np.all(np.diff(indices) == 1):  # neighbours: a view, no copy
                array = array[indices[0] : indices[-1] + 1]
            else:
                array = array[indices]
            return InMemory(array, prefix, ((prefix, indices),))
        case Files(paths=paths, root=root):
            return Files(tuple(paths[i] for i in indices), root)
        case Records():
            return Records(images.shards, images.shard[indices], images.offset[indices], images.image_field)
    raise TypeError(f"pictures of the kind {type(images).__name__} cannot be selected from")


def _join(chosen: list[Images]) -> Images:
    match chosen[0]:
        case InMemory():
            memory = [images for images in chosen if isinstance(images, InMemory)]
            places = tuple(place for images in memory for place in images.places)
            if len({images.array.shape[1:] for images in memory}) > 1:
                raise DataError("the unlabelled pictures are not all of one size")
            return InMemory(np.concatenate([images.array for images in memory]), memory[0].prefix, places)
        case Files(root=root):
            return Files(tuple(path for images in chosen if isinstance(images, Files) for path in images.paths), root)
        case Records():
            return _join_records([images for images in chosen if isinstance(images, Records)])
    raise TypeError(f"pictures of the kind {type(chosen[0]).__name__} cannot be joined")


def _join_records(chosen: list[Records]) -> Records:
    starts = np.cumsum([0] + [len(records.shards) for records in chosen[:-1]])
    return Records(
        tuple(path for records in chosen for path in records.shards),
        np.concatenate([records.shard + np.int32(start) for records, start in zip(chosen, starts, strict=True)]),
        np.concatenate([records.offset for records in chosen]),
        chosen[0].image_field,
    )
