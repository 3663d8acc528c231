"""Which pictures of a source have which role: the paper's splits (Appendices C.1, E) and class-balanced ones.

`cifar10-4k`    The 50,000 training pictures in file order: the first 5,000 are dropped, the next 4,000 are labelled,
                the other 41,000 are unlabelled.
`svhn-1k`       "The same procedure", so training pictures 5,000 to 5,999 are labelled. The paper also says
                "about 603,000" unlabelled: train and extra have 73,257 + 531,131 = 604,388 pictures, and 603,388
                without the labelled ones. Dropping the first 5,000 here too would leave 598,388. So we assume that
                they serve as unlabelled pictures (Section 3.2: there is no held-out set).
`imagenet-10`   (20, 40, 80, 100) The first ⌊1,024 · 10 %⌋ = 102 (204, 409, 819, 1,024) shards are labelled, all others
                are unlabelled: "the rest of 1.28 million", and "we do not use any heldout validation set" (Section
                3.2). If all are labelled, the unlabelled pictures are the source's own, or the labelled ones again if
                it has none.
`imagenet-100-val20`  (10, 20, 40, 80) The same, but the last 20 shards are held out, as `val`: Appendix C.1 reserves
                them for Sections 3.3 and 4. `imagenet-100-val40` holds out 40, as Appendix E; it does not say which.
`svhn-val7300`  Appendix E: 7,300 training pictures are held out, as `val`; the other 65,957 are labelled, `extra` is
                unlabelled. It does not say which are held out: here the first, as Appendix C.1 does with CIFAR-10.
`name@4000#1`   As the field does it (USB): the same number of labels for each class, drawn by the seed; the
                unlabelled pictures are *all* training pictures, the labelled ones included, and `extra`. With the
                same seed, a smaller labelled set is a subset of a larger one.
`name`          The source's own division.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.data.reading.records import Records
from metapl.data.sources.dataset import Role
from metapl.data.sources.source import DataError, Source
from metapl.data.sources.spec import Spec

# Rows of one or more parts of a source, one part after the other.
PartRows = tuple[tuple[str, NDArray[np.int64]], ...]

_IMAGENET_SHARDS = 1024


class Split(NamedTuple):
    """The rows of a source's parts that have each role."""

    spec: Spec
    labeled: PartRows
    unlabeled: PartRows
    val: PartRows
    test: PartRows

    def rows(self, role: Role) -> PartRows:
        """The rows that have this role."""
        return {"labeled": self.labeled, "unlabeled": self.unlabeled, "val": self.val, "test": self.test}[role]


def make_split(spec: Spec, source: Source) -> Split:
    """Choose the rows that the split's name stands for."""
    if spec.labels is not None:
        return _balanced(spec, source)
    if spec.text == "cifar10-4k":
        return _cifar10_4k(spec, source)
    if spec.text == "svhn-1k":
        return _svhn_1k(spec, source)
    if spec.text == "svhn-val7300":
        return _svhn_val7300(spec, source)
    if spec.text.startswith("imagenet-"):
        percent, _, held_out = spec.text.removeprefix("imagenet-").partition("-val")
        return _imagenet(spec, source, int(percent), int(held_out or 0))
    return _given(spec, source)


def count(rows: PartRows) -> int:
    """The number of pictures."""
    return sum(len(indices) for _, indices in rows)


def labels_of(source: Source, rows: PartRows) -> NDArray[np.int32]:
    """The labels that the source has for these pictures."""
    chosen = [source.parts[part].labels[indices] for part, indices in rows]
    return np.concatenate([np.zeros(0, np.int32), *chosen])


def _cifar10_4k(spec: Spec, source: Source) -> Split:
    _check_count(spec, source, "train", 50_000)
    labeled, unlabeled = np.arange(5_000, 9_000), np.arange(9_000, 50_000)
    return Split(spec, (("train", labeled),), (("train", unlabeled),), (), _whole(source, "test"))


def _svhn_1k(spec: Spec, source: Source) -> Split:
    _check_count(spec, source, "train", 73_257)
    _check_count(spec, source, "extra", 531_131)
    labeled = np.arange(5_000, 6_000)
    rest = np.setdiff1d(np.arange(73_257), labeled, assume_unique=True)
    return Split(spec, (("train", labeled),), (("train", rest), *_whole(source, "extra")), (), _whole(source, "test"))


def _svhn_val7300(spec: Spec, source: Source) -> Split:
    _check_count(spec, source, "train", 73_257)
    _check_count(spec, source, "extra", 531_131)
    val, labeled = np.arange(7_300), np.arange(7_300, 73_257)
    extra = _whole(source, "extra")
    return Split(spec, (("train", labeled),), extra, (("train", val),), _whole(source, "test"))


def _imagenet(spec: Spec, source: Source, percent: int, held_out: int) -> Split:
    """Label the first shards and hold out the last `held_out`; the shards between are unlabelled."""
    images = source.parts["train"].images
    if not isinstance(images, Records) or len(images.shards) != _IMAGENET_SHARDS:
        shards = len(images.shards) if isinstance(images, Records) else 0
        raise DataError(
            f"{spec.text} is a split of {_IMAGENET_SHARDS:,} training shards, but the source has {shards:,}"
        )
    end = _IMAGENET_SHARDS - held_out
    last = min(_IMAGENET_SHARDS * percent // 100, end)
    labeled = np.flatnonzero(images.shard < last)
    between = np.flatnonzero((images.shard >= last) & (images.shard < end))
    more = _whole(source, "unlabeled")
    unlabeled: PartRows = (("train", between), *more) if len(between) else more or (("train", labeled),)
    val: PartRows = (("train", np.flatnonzero(images.shard >= end)),) if held_out else _whole(source, "val")
    return Split(spec, (("train", labeled),), unlabeled, val, _whole(source, "test"))


def _balanced(spec: Spec, source: Source) -> Split:
    classes, labels = len(source.class_names), spec.labels or 0
    each, rest = divmod(labels, classes)
    if rest:
        near = f"{labels - rest} or {labels - rest + classes}" if each else f"{classes}"
        raise DataError(f"{spec.text}: {classes} classes cannot share {labels} labels evenly; take {near}")
    draw = np.random.RandomState(spec.seed)  # NumPy promises that its numbers never change; a Generator's may
    train = source.parts["train"].labels
    chosen = []
    for number, name in enumerate(source.class_names):
        rows = np.flatnonzero(train == number)
        if len(rows) < each:
            raise DataError(f"{spec.text}: the class {name} has {len(rows)} labelled pictures, but needs {each}")
        chosen.append(draw.permutation(rows)[:each])
    everything = _whole(source, "train", "unlabeled", "extra")
    return Split(
        spec,
        (("train", np.sort(np.concatenate(chosen))),),
        everything,
        _whole(source, "val"),
        _whole(source, "test"),
    )


def _given(spec: Spec, source: Source) -> Split:
    train = source.parts["train"].labels
    labeled = np.flatnonzero(train >= 0)
    if len(labeled) == 0:
        raise DataError(f"{spec.text}: no training picture has a label")
    without_label = np.flatnonzero(train < 0)
    unlabeled: PartRows = ((("train", without_label),) if len(without_label) else ()) + _whole(
        source, "unlabeled", "extra"
    )
    # Without unlabelled pictures, the labelled ones serve as unlabelled ones; their labels are not used then.
    unlabeled = unlabeled or (("train", labeled),)
    return Split(spec, (("train", labeled),), unlabeled, _whole(source, "val"), _whole(source, "test"))


def _whole(source: Source, *parts: str) -> PartRows:
    """All rows of those of the parts that have pictures."""
    sizes = {part: len(source.parts[part].images) for part in parts if part in source.parts}
    return tuple((part, np.arange(size)) for part, size in sizes.items() if size)


def _check_count(spec: Spec, source: Source, part: str, wanted: int) -> None:
    """Refuse other files than the official ones: the paper's splits are rows of those."""
    have = len(source.parts[part].images) if part in source.parts else 0
    if have != wanted:
        raise DataError(f"{spec.text} is a split of {wanted:,} pictures in {part}, but the source has {have:,}")
