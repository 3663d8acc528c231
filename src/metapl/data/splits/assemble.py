"""A source and a split, put together: the pictures of each role, ready for the loader."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.data.reading.decode import DataError
from metapl.data.reading.records import Records
from metapl.data.sources.dataset import Dataset
from metapl.data.sources.on_disk import Examples, OnDisk, read, stack, usual_reading
from metapl.data.sources.source import Files, Images, InMemory, PictureConfig, Source
from metapl.data.splits import manifest
from metapl.data.splits.split import Rows, Split, labels_of
from metapl.system import runtime

MEMORY_LIMIT = 8_000_000_000  # bytes of pictures decoded into memory, as data.npz's own limit
MEMORY_SHARE = 0.25  # of the machine's memory: a CPU's "device" keeps a copy of its own


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


def to_dataset(dataset: PictureDataset, config: PictureConfig, tell: Callable[[str], None]) -> Dataset:
    """Decode all pictures, or leave them where they are, as the settings say; `tell` which, where there is a choice."""
    needed = sum(_to_decode(getattr(dataset, role), config.size) for role in manifest.ROLES)
    limit = min(MEMORY_LIMIT, runtime.memory_bytes() * MEMORY_SHARE)
    if config.feed == "memory" or (config.feed == "auto" and needed <= limit):
        if needed:
            tell(f"all pictures are decoded before the first step, into {_size(needed)} of memory")
        return in_memory(dataset, config.size)
    size = f"; all of them would fill {_size(needed)}" if needed else ""
    why = f", more than the {_size(limit)} that they may" if needed > limit else ""
    tell(f"pictures are read and decoded when their turn comes{size}{why}")
    return _with(dataset, lambda images: OnDisk(images, config.size, usual_reading(config.workers)))


def in_memory(dataset: PictureDataset, size: int) -> Dataset:
    """Decode what is not decoded yet: arrays that fit stay with the device for the whole run."""
    return _with(dataset, lambda images: to_array(images, size))


def _with(dataset: PictureDataset, examples_of: Callable[[Images], Examples]) -> Dataset:
    has_val = len(dataset.val) > 0
    return Dataset(
        labeled=examples_of(dataset.labeled),
        labels=dataset.labels,
        unlabeled=examples_of(dataset.unlabeled),
        test=examples_of(dataset.test),
        test_labels=dataset.test_labels,
        class_names=dataset.class_names,
        manifest=dataset.manifest,
        val=examples_of(dataset.val) if has_val else None,
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
    return stack([read(images, int(i), size) for i in wanted], size)


def _check_memory(images: Images, size: int, count: int) -> None:
    """Say so before hours of decoding end in a full memory."""
    each = _bytes_each(images, size)
    if count * each > MEMORY_LIMIT:
        raise DataError(
            f"{count:,} pictures of {each:,} bytes each do not fit into the {MEMORY_LIMIT / 1e9:.0f} GB that decoded "
            "pictures may take; give a smaller size, or feed = files"
        )


def _to_decode(images: Images, size: int) -> int:
    """How many bytes decoding makes; what is in memory already is not made again."""
    return 0 if isinstance(images, InMemory) and not size else len(images) * _bytes_each(images, size)


def _size(count: float) -> str:
    return f"{count / 1e9:.3g} GB" if count >= 1e9 else f"{count / 1e6:.3g} MB"


def _bytes_each(images: Images, size: int) -> int:
    """What one picture takes; of those that come as stored, the first speaks for all."""
    if not len(images):
        return 0
    return 3 * size * size if size else images[0].size


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
