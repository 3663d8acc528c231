"""Take pictures out of a source's parts: one sequence for each role of a split."""

import numpy as np
from numpy.typing import NDArray

from metapl.data.reading import packed
from metapl.data.reading.decode import DataError
from metapl.data.reading.packed import Packed
from metapl.data.reading.records import Records
from metapl.data.sources.dataset import ROLES, Role
from metapl.data.sources.source import Files, Images, InMemory, Part, Source, unlabeled_labels
from metapl.data.splits.split import PartRows, Split, labels_of


def select_roles(source: Source, split: Split) -> dict[Role, Part]:
    """The pictures of each role with their labels; unlabelled pictures have −1, even if the source knows better."""
    parts: dict[Role, Part] = {}
    for role in ROLES:
        rows = split.rows(role)
        images = select(source, rows)
        labels = unlabeled_labels(len(images)) if role == "unlabeled" else labels_of(source, rows)
        parts[role] = Part(images, labels)
    return parts


def select(source: Source, rows: PartRows) -> Images:
    """Pictures of one or more parts as one sequence of the same kind."""
    chosen = [take(source.parts[part].images, indices) for part, indices in rows]
    if not chosen:
        return take(source.parts["train"].images, np.arange(0))
    return chosen[0] if len(chosen) == 1 else join(chosen)


def take(images: Images, indices: NDArray[np.int64]) -> Images:
    """The pictures with these indices, as a sequence of the same kind."""
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
        case Packed():
            return images.take(indices)
    raise TypeError(f"cannot select from pictures of type {type(images).__name__}")


def join(chosen: list[Images]) -> Images:
    """Several sequences of one kind, one after the other."""
    match chosen[0]:
        case InMemory():
            memory = [images for images in chosen if isinstance(images, InMemory)]
            places = tuple(place for images in memory for place in images.places)
            if len({images.array.shape[1:] for images in memory}) > 1:
                raise DataError("the unlabelled pictures are not all of one size; scale them to one")
            return InMemory(np.concatenate([images.array for images in memory]), memory[0].prefix, places)
        case Files(root=root):
            return Files(tuple(path for images in chosen if isinstance(images, Files) for path in images.paths), root)
        case Records():
            return _join_records([images for images in chosen if isinstance(images, Records)])
        case Packed():
            return packed.join([images for images in chosen if isinstance(images, Packed)])
    raise TypeError(f"cannot join pictures of type {type(chosen[0]).__name__}")


def _join_records(chosen: list[Records]) -> Records:
    starts = np.cumsum([0] + [len(records.shards) for records in chosen[:-1]])
    return Records(
        tuple(path for records in chosen for path in records.shards),
        np.concatenate([records.shard + np.int32(start) for records, start in zip(chosen, starts, strict=True)]),
        np.concatenate([records.offset for records in chosen]),
        chosen[0].image_field,
    )
