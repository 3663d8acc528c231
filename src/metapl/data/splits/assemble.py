"""From a source and a split to a dataset: the pictures of each role, decoded into memory or left on disk."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.data.reading.decode import DataError
from metapl.data.sources.dataset import Dataset, Role
from metapl.data.sources.on_disk import Examples, OnDisk, read, stack, usual_reading
from metapl.data.sources.source import Images, InMemory, Part, PictureConfig, Source
from metapl.data.splits import manifest
from metapl.data.splits.select import select_roles
from metapl.data.splits.split import Split, labels_of
from metapl.system import runtime

MEMORY_LIMIT = 8_000_000_000  # bytes of pictures decoded into memory; as large as npz's max_gigabytes
MEMORY_SHARE = 0.25  # of the machine's memory: a CPU's "device" keeps a copy of its own


class SplitSource(NamedTuple):
    """A source after its split: pictures by role, as they are stored. A role without pictures is empty."""

    roles: Mapping[Role, Part]
    class_names: tuple[str, ...]
    manifest: Mapping[str, Any]
    truth: NDArray[np.int32] | None  # labels that the source knows of the unlabelled pictures; None: it knows none
    test_real: NDArray[np.bool_] | None = None  # as in Dataset

    def images(self, role: Role) -> Images:
        """The pictures of a role."""
        return self.roles[role].images

    def labels(self, role: Role) -> NDArray[np.int32]:
        """The labels of a role; −1: unlabelled."""
        return self.roles[role].labels


def assemble(source: Source, split: Split) -> SplitSource:
    """Select the pictures of each role; known labels of unlabelled pictures are kept apart, as `truth`."""
    roles = select_roles(source, split)
    truth = labels_of(source, split.unlabeled)
    images = {role: part.images for role, part in roles.items()}
    return SplitSource(
        roles,
        source.class_names,
        manifest.make(source, split, images),
        truth if (truth >= 0).any() else None,
    )


def to_dataset(pictures: SplitSource, config: PictureConfig, tell: Callable[[str], None]) -> Dataset:
    """Decode all pictures, or leave them on disk, as the settings say; `tell` reports which, if there is a choice."""
    needed = sum(_bytes_to_decode(part.images, config.size) for part in pictures.roles.values())
    limit = min(MEMORY_LIMIT, runtime.memory_bytes() * MEMORY_SHARE)
    if config.feed == "memory" or (config.feed == "auto" and needed <= limit):
        if needed:
            tell(f"all pictures are decoded before the first step, into {_in_words(needed)} of memory")
        return in_memory(pictures, config.size)
    size = f"; all of them would fill {_in_words(needed)}" if needed else ""
    why = f", more than the limit of {_in_words(limit)}" if needed > limit else ""
    tell(f"pictures are read and decoded when a step needs them{size}{why}")
    return _dataset(pictures, lambda images: OnDisk(images, config.size, usual_reading(config.workers)))


def in_memory(pictures: SplitSource, size: int) -> Dataset:
    """Decode all pictures that are not decoded yet. Arrays that fit stay on the device for the whole run."""
    return _dataset(pictures, lambda images: to_array(images, size))


def _dataset(pictures: SplitSource, examples_of: Callable[[Images], Examples]) -> Dataset:
    has_val = len(pictures.images("val")) > 0
    return Dataset(
        labeled=examples_of(pictures.images("labeled")),
        labels=pictures.labels("labeled"),
        unlabeled=examples_of(pictures.images("unlabeled")),
        test=examples_of(pictures.images("test")),
        test_labels=pictures.labels("test"),
        class_names=pictures.class_names,
        manifest=pictures.manifest,
        val=examples_of(pictures.images("val")) if has_val else None,
        val_labels=pictures.labels("val") if has_val else None,
        test_real=pictures.test_real,
        truth=pictures.truth,
    )


def to_array(images: Images, size: int, rows: Sequence[int] | NDArray[np.int64] | None = None) -> NDArray[np.uint8]:
    """Decode the pictures (or those of `rows`) into one array [N, H, W, C], cut and scaled to `size` unless it is 0."""
    if isinstance(images, InMemory) and not size:
        return images.array if rows is None else images.array[rows]
    wanted = range(len(images)) if rows is None else rows
    _check_memory(images, size, len(wanted))
    return stack([read(images, int(i), size) for i in wanted], size)


def _check_memory(images: Images, size: int, count: int) -> None:
    """Refuse more pictures than fit into memory, before hours of decoding."""
    each = _bytes_each(images, size)
    if count * each > MEMORY_LIMIT:
        raise DataError(
            f"{count:,} pictures of {each:,} bytes each do not fit into the {MEMORY_LIMIT / 1e9:.0f} GB that decoded "
            "pictures may take; give a smaller size, or feed = files"
        )


def _bytes_to_decode(images: Images, size: int) -> int:
    """How many bytes decoding would produce; 0 for pictures that are in memory already."""
    return 0 if isinstance(images, InMemory) and not size else len(images) * _bytes_each(images, size)


def _in_words(count: float) -> str:
    return f"{count / 1e9:.3g} GB" if count >= 1e9 else f"{count / 1e6:.3g} MB"


def _bytes_each(images: Images, size: int) -> int:
    """The bytes of one decoded picture; without a `size`, the first picture's."""
    if not len(images):
        return 0
    return 3 * size * size if size else images[0].size
