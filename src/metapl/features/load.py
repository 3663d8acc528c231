"""From pictures to datasets of stored features, one for each seed."""

import dataclasses
import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metapl.augment import views
from metapl.augment.views import Augmentation
from metapl.data.sources.dataset import Dataset
from metapl.data.sources.features import Features
from metapl.data.splits.manifest import CONTENTS
from metapl.features import encoders, stored_views
from metapl.features.draw import draw, held_out
from metapl.features.stored_views import Encode, Stored
from metapl.system import runtime

Say = Callable[[str], None]
FORMAT = 1  # of the files; another number makes them anew
TRAINING = ("labeled", "unlabeled")  # of other pictures, the eval view is enough


def load(
    config: Features, pictures: Dataset, symmetries: tuple[bool, int], seeds: list[int], say: Say
) -> list[Dataset]:
    """Encode the pictures, or find their features in the cache, and draw each seed's labels.

    `symmetries` are the source's: whether a mirrored picture keeps its class, and by how many pixels it may move.
    """
    pictures = _at_most(_with_test(pictures), config.pictures)
    config = encoders.settled(config)
    augmentation = views.usual(*symmetries)
    strong = dataclasses.replace(augmentation.strong, magnitude=config.strong_magnitude)
    augmentation = dataclasses.replace(augmentation, strong=strong)
    folder = runtime.cache_folder() / "features" / _key(config, pictures.manifest or {}, augmentation)
    arrays = _arrays(pictures)
    to_learn_from = [array for role, array in arrays.items() if role in TRAINING]
    encode = encoders.build(config, to_learn_from, folder, say)
    stored = {
        role: _stored(folder, role, array, encode, augmentation, config.views if role in TRAINING else 0, say)
        for role, array in arrays.items()
    }
    if not config.labels_per_class:
        dataset = _as_given(pictures, stored)
        return [dataset] * len(seeds)
    return [_drawn(config, pictures, stored, seed) for seed in seeds]


def _with_test(pictures: Dataset) -> Dataset:
    """Take the validation part as the test part if the source has no other: many are published as train and val."""
    if len(pictures.test) or pictures.val is None or pictures.val_labels is None:
        return pictures
    return pictures._replace(test=pictures.val, test_labels=pictures.val_labels, val=None, val_labels=None)


def _at_most(pictures: Dataset, count: int) -> Dataset:
    """Keep so many of the labelled pictures; 0: all."""
    if not count or count >= len(pictures.labels):
        return pictures
    rows = np.sort(np.random.RandomState(0).permutation(len(pictures.labels))[:count])
    return pictures._replace(labeled=np.asarray(pictures.labeled)[rows], labels=pictures.labels[rows])


def _arrays(pictures: Dataset) -> dict[str, NDArray[np.uint8]]:
    roles: dict[str, Any] = {
        "labeled": pictures.labeled,
        "unlabeled": pictures.unlabeled,
        "val": pictures.val,
        "test": pictures.test,
    }
    if _same_pictures(pictures.manifest or {}):  # a source without unlabelled pictures trains on its labelled ones
        del roles["unlabeled"]
    return {role: np.asarray(examples) for role, examples in roles.items() if examples is not None and len(examples)}


def _same_pictures(manifest: Mapping[str, Any]) -> bool:
    """Whether the unlabelled pictures are the labelled ones."""
    rows = [manifest.get(role, {}).get("rows_sha256") for role in ("labeled", "unlabeled")]
    return rows[0] is not None and rows[0] == rows[1]


def _stored(
    folder: Path,
    role: str,
    pictures: NDArray[np.uint8],
    encode: Encode,
    augmentation: Augmentation,
    pairs: int,
    say: Say,
) -> Stored:
    path = folder / f"{role}.npy"
    if not path.exists():
        views_of_each = f", {1 + 2 * pairs} views of each" if pairs else ""
        say(f"encoding {len(pictures):,} {role} pictures{views_of_each}; kept in {folder}")
    return stored_views.compute(path, {"format": FORMAT, "role": role}, pictures, encode, augmentation, pairs)


def _as_given(pictures: Dataset, stored: Mapping[str, Stored]) -> Dataset:
    return pictures._replace(
        labeled=stored["labeled"],
        unlabeled=stored.get("unlabeled", stored["labeled"]),
        val=stored.get("val"),
        test=stored["test"],
    )


def _drawn(config: Features, pictures: Dataset, stored: Mapping[str, Stored], seed: int) -> Dataset:
    """One seed's labelled, unlabelled and held-out examples; foreign classes are neither labelled nor tested."""
    classes = len(pictures.class_names)
    known = classes - config.foreign_classes
    rows, validation = held_out(pictures.labels, config.validate_on)
    drawn = draw(config, pictures.labels, rows, classes, seed)
    own = stored["labeled"]
    truth = np.where(pictures.labels[drawn.unlabeled] < known, pictures.labels[drawn.unlabeled], -1)
    test = _known(pictures.test_labels, known)[: config.test_on or None]
    dataset = pictures._replace(
        labeled=own[drawn.labeled],
        labels=drawn.labels,
        unlabeled=own[drawn.unlabeled],
        truth=truth.astype(np.int32),
        test=stored["test"][test],
        test_labels=pictures.test_labels[test],
        class_names=pictures.class_names[:known],
        manifest=None,
    )
    if not len(validation):
        return dataset
    validation = validation[_known(pictures.labels[validation], known)]
    return dataset._replace(val=own[validation], val_labels=pictures.labels[validation])


def _known(labels: NDArray[np.int32], known: int) -> NDArray[np.int64]:
    """Rows whose class is labelled, in an order drawn once for all seeds."""
    return np.random.RandomState(1).permutation(np.flatnonzero(labels < known))


def _key(config: Features, manifest: Mapping[str, Any], augmentation: Augmentation) -> str:
    """What the features depend on, hashed: other pictures or settings get files of their own."""
    content = {
        "format": FORMAT,
        "pictures": manifest.get("checksum"),
        "content": manifest.get(CONTENTS),
        "encoder": [*encoders.identity(config), config.size, config.views, config.pictures],
        "augmentation": dataclasses.asdict(augmentation),
    }
    return sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:16]
