"""From pictures to datasets of stored features, one for each seed."""

import dataclasses
import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.augment import views
from metapl.augment.views import Augmentation
from metapl.data.loading.files_loader import in_turn
from metapl.data.reading.decode import DataError
from metapl.data.sources.dataset import Dataset, Role
from metapl.data.sources.features import Features
from metapl.data.sources.on_disk import Examples, OnDisk, usual_reading
from metapl.data.sources.source import Images, InMemory, Part
from metapl.data.splits.assemble import SplitSource, to_array
from metapl.data.splits.manifest import same_pictures
from metapl.data.splits.select import take
from metapl.features import encoders, stored_views
from metapl.features.content import digests
from metapl.features.draw import draw, held_out
from metapl.features.folds import fold_of, in_folds
from metapl.features.remembered import Remembered
from metapl.features.stored_views import Count, Encode, Stored
from metapl.system import runtime

Say = Callable[[str], None]
FORMAT = 2  # of the files; another number makes them anew
TRAINING = ("labeled", "unlabeled")  # of other pictures, the eval view is enough
LOOKED_UP = 100  # pictures that say how many were encoded before
READ_AT_ONCE = 64  # pictures


class Prepared(NamedTuple):
    """Pictures that can be encoded, and where their features are kept."""

    config: Features
    pictures: SplitSource
    examples: Mapping[str, Examples]  # by role; decoded when they are needed
    folder: Path
    content: str  # of all pictures, hashed
    encode: Encode
    augmentation: Augmentation
    say: Say


def prepare(config: Features, pictures: SplitSource, symmetries: tuple[bool, int], say: Say) -> Prepared:
    """Find the pictures' cache, and make the encoder; it learns from the pictures if it has not before.

    `symmetries` are the source's: whether a mirrored picture keeps its class, and by how many pixels it may move.
    """
    everything = _with_test(pictures)
    split = _at_most(everything, config)
    config = encoders.settled(config)
    augmentation = _augmentation(config, *symmetries)
    content = digests(everything)
    folder = runtime.make_in_cache(runtime.cache_folder() / "features" / _key(config, content, augmentation))
    encode = encoders.build(config, lambda most: _to_learn_from(everything, config, most), folder, say)
    return Prepared(config, split, _examples(split, config.size), folder, _hashed(content), encode, augmentation, say)


def _to_learn_from(pictures: SplitSource, config: Features, most: int) -> list[NDArray[np.uint8]]:
    """Pictures to train on, whether they will be encoded or not: the encoder does not depend on their number.

    Of pictures in files, about so many are read.
    """
    learning = _at_most(pictures, dataclasses.replace(config, unlabeled=0, without=""))
    examples = [array for role, array in _examples(learning, config.size).items() if role in TRAINING]
    total = sum(map(len, examples))
    return [_some(array, -(-most * len(array) // total)) for array in examples]


def stored(prepared: Prepared, role: str, count: Count = lambda rows: None, only_eval_view: bool = False) -> Stored:
    """The features of a role's pictures [N, 1 + 2 V, D]: what is missing of their file is computed.

    The eval view alone, [N, 1, D], has a file of its own: it takes a fraction of the time, and some need no other.
    """
    config, examples, path = prepared.config, prepared.examples[role], _path(prepared, role, only_eval_view)
    pairs = config.views if role in TRAINING and not only_eval_view else 0
    if not path.exists():
        views_of_each = f", {1 + 2 * pairs} views of each" if pairs else ""
        prepared.say(f"encoding {len(examples):,} {role} pictures{views_of_each}; kept in {prepared.folder}")
    origin = {"format": FORMAT, "role": role}
    # Views of chance are never seen again; a picture as it is may come back in another set of pictures.
    encode = prepared.encode if pairs else encoders.remembering(prepared.encode, config, prepared.folder)
    return stored_views.compute(path, origin, examples, encode, prepared.augmentation, pairs, count)


def _path(prepared: Prepared, role: str, only_eval_view: bool) -> Path:
    """The file of a role's features."""
    config = prepared.config
    limited = role == "unlabeled" and config.unlabeled and not config.labels_per_class
    name = f"{role}-{len(prepared.examples[role])}" if limited else role
    if role == "unlabeled" and config.without:
        name += "-without-" + sha256(_left_out(config).tobytes()).hexdigest()[:8]
    return prepared.folder / (f"{name}-eval.npy" if only_eval_view else f"{name}.npy")


def is_stored(prepared: Prepared, role: str, only_eval_view: bool = False) -> bool:
    """Whether the features of a role's pictures are all on disk."""
    return _path(prepared, role, only_eval_view).exists()


def new_share(prepared: Prepared, role: str) -> float:
    """What share of a role's pictures the encoder has not seen before as they are, by a sample of them."""
    encode = encoders.remembering(prepared.encode, prepared.config, prepared.folder)
    if not isinstance(encode, Remembered):
        return 1.0
    sample = _some(prepared.examples[role], LOOKED_UP)[:LOOKED_UP]
    return 1 - encode.known(sample) / len(sample)


def load(prepared: Prepared, seeds: list[int]) -> list[Dataset]:
    """Give each seed its dataset; without draws and folds, all share one."""
    config = prepared.config
    features = {role: stored(prepared, role) for role in prepared.examples}
    if config.labels_per_class:
        return [_drawn(config, prepared.pictures, features, seed) for seed in seeds]
    dataset = _as_given(prepared.pictures, features)
    if not config.folds:
        return [dataset] * len(seeds)
    # Features of the same picture may differ in the last bits from file to file: folds are cut by one of them.
    fold = fold_of(stored(prepared, "labeled", only_eval_view=True)[:, 0], dataset.labels, config.folds)
    return [in_folds(dataset, fold, config.folds, seed) for seed in seeds]


def _with_test(pictures: SplitSource) -> SplitSource:
    """Take the validation part as the test part if the source has no other: many are published as train and val."""
    if len(pictures.images("test")) or not len(pictures.images("val")):
        return pictures
    roles = {**pictures.roles, "test": pictures.roles["val"], "val": _part(pictures.roles["val"], np.arange(0))}
    return pictures._replace(roles=roles)


def _at_most(pictures: SplitSource, config: Features) -> SplitSource:
    """Keep so many of the labelled pictures and, where none are drawn from these, of the unlabelled ones."""
    counts: dict[Role, int] = {"labeled": config.pictures, "unlabeled": config.unlabeled}
    if config.labels_per_class:
        del counts["unlabeled"]
    for role, count in counts.items():
        part = pictures.roles[role]
        rows = chosen_rows(len(part.images), count)
        if role == "unlabeled" and config.without:
            rows = np.setdiff1d(rows, _left_out(config))
        if len(rows) == len(part.images):
            continue
        truth = pictures.truth[rows] if role == "unlabeled" and pictures.truth is not None else pictures.truth
        pictures = pictures._replace(roles={**pictures.roles, role: _part(part, rows)}, truth=truth)
    return pictures


def chosen_rows(total: int, count: int) -> NDArray[np.int64]:
    """Rows of so many of a role's pictures, the same for every seed; 0: all."""
    if not count or count >= total:
        return np.arange(total)
    return np.sort(np.random.RandomState(0).permutation(total)[:count])


def _left_out(config: Features) -> NDArray[np.int64]:
    """Rows of the unlabelled pictures that are not used."""
    try:
        return np.array(json.loads(Path(config.without).read_text("utf-8"))["rows"], np.int64)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise DataError(f"data.without: {config.without} is not a JSON file with a list of rows: {error}") from None


def _part(part: Part, rows: NDArray[np.int64]) -> Part:
    return Part(take(part.images, rows), part.labels[rows])


def _examples(pictures: SplitSource, size: int) -> dict[str, Examples]:
    roles = {role: part.images for role, part in pictures.roles.items() if len(part.images)}
    if same_pictures(pictures.manifest):  # a source without unlabelled pictures trains on its labelled ones
        roles.pop("unlabeled", None)
    return {role: _lazily(images, size) for role, images in roles.items()}


def _lazily(images: Images, size: int) -> Examples:
    return to_array(images, size) if isinstance(images, InMemory) else OnDisk(images, size, usual_reading())


def _some(examples: Examples, most: int) -> NDArray[np.uint8]:
    """All pictures in memory, or so many of those in files."""
    if isinstance(examples, OnDisk):
        rows = np.sort(np.random.RandomState(0).permutation(len(examples))[: max(1, most)])
        some = dataclasses.replace(examples, images=take(examples.images, rows))
        return np.concatenate([batch.astype(np.uint8, copy=False) for batch in in_turn(some, READ_AT_ONCE)])
    return examples.astype(np.uint8, copy=False)


def _augmentation(config: Features, mirrored: bool, shift_pixels: int) -> Augmentation:
    mirrored = mirrored if config.mirrored is None else config.mirrored
    shift_pixels = shift_pixels if config.shift_pixels is None else config.shift_pixels
    strong = dataclasses.replace(views.usual_strong(mirrored), magnitude=config.strong_magnitude)
    return dataclasses.replace(views.usual(mirrored, shift_pixels), strong=strong)


def _as_given(pictures: SplitSource, features: Mapping[str, Stored]) -> Dataset:
    none = np.zeros((0, 1, features["labeled"].shape[-1]), np.float16)
    return Dataset(
        labeled=features["labeled"],
        labels=pictures.labels("labeled"),
        unlabeled=features.get("unlabeled", features["labeled"]),
        test=features.get("test", none),
        test_labels=pictures.labels("test"),
        class_names=pictures.class_names,
        manifest=pictures.manifest,
        val=features.get("val"),
        val_labels=pictures.labels("val") if "val" in features else None,
        test_real=pictures.test_real,
        truth=pictures.truth,
    )


def _drawn(config: Features, pictures: SplitSource, features: Mapping[str, Stored], seed: int) -> Dataset:
    """One seed's labelled, unlabelled and held-out examples; foreign classes are neither labelled nor tested."""
    classes, labels = len(pictures.class_names), pictures.labels("labeled")
    known = classes - config.foreign_classes
    rows, validation = held_out(labels, config.validate_on)
    drawn = draw(config, labels, rows, classes, seed)
    own = features["labeled"]
    truth = np.where(labels[drawn.unlabeled] < known, labels[drawn.unlabeled], -1)
    test = _known(pictures.labels("test"), known)[: config.test_on or None]
    dataset = _as_given(pictures, features)._replace(
        labeled=own[drawn.labeled],
        labels=drawn.labels,
        unlabeled=own[drawn.unlabeled],
        truth=truth.astype(np.int32),
        test=features["test"][test],
        test_labels=pictures.labels("test")[test],
        class_names=pictures.class_names[:known],
        manifest=None,
    )
    if not len(validation):
        return dataset
    validation = validation[_known(labels[validation], known)]
    return dataset._replace(val=own[validation], val_labels=labels[validation])


def _known(labels: NDArray[np.int32], known: int) -> NDArray[np.int64]:
    """Rows whose class is labelled, in an order drawn once for all seeds."""
    return np.random.RandomState(1).permutation(np.flatnonzero(labels < known))


def _key(config: Features, pictures: Mapping[str, str], augmentation: Augmentation) -> str:
    """What the features depend on, hashed: other pictures or settings get files of their own."""
    content = {
        "format": FORMAT,
        "pictures": pictures,
        "encoder": [*encoders.identity(config), config.size, config.views, config.pictures],
        "augmentation": dataclasses.asdict(augmentation),
    }
    return _hashed(content)


def _hashed(content: Mapping[str, Any]) -> str:
    return sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:16]
