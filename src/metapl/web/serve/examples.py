"""The labelled pictures that a network was trained with: which of them it finds most like a new one.

Alike means: the classifier is given nearly the same. Of many pictures as many of each class are kept as there is room
for, small, in memory: nothing is read from disk once the server runs.
"""

import io
import json
from collections.abc import Iterator
from contextlib import chdir, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from metapl.data import pictures
from metapl.data.reading.decode import BadImage, DataError
from metapl.data.reading.files import Folders
from metapl.data.sources.on_disk import read
from metapl.data.sources.source import Images, PictureConfig
from metapl.evaluate.predictor import Pictures, Predictor
from metapl.runs.run_folder import ENVIRONMENT, SPLIT
from metapl.schema import ConfigError

SHOWN_SIDE = 128  # pixels of the longer side of what a page shows


class Near(NamedTuple):
    """A labelled picture that is like another one."""

    number: int  # among the examples
    label: int
    similarity: float  # the cosine of the angle between the features; 1: the network sees the same


@dataclass(frozen=True, eq=False)
class Examples:
    """Labelled pictures and what a network's classifier is given of each."""

    shown: tuple[Pictures, ...]  # small ones, [H, W, C] each
    labels: NDArray[np.int32]
    features: NDArray[np.float32]  # [N, D], of length 1

    def __len__(self) -> int:
        return len(self.shown)

    def nearest(self, features: NDArray[np.float32], count: int) -> list[Near]:
        """The most similar ones first, equals in their order."""
        similarities = self.features @ to_length_1(features)
        order = np.argsort(-similarities, kind="stable")[:count]
        return [Near(int(i), int(self.labels[i]), float(similarities[i])) for i in order]

    def png(self, index: int) -> bytes | None:
        """One of them as a file; None if there is none with this number."""
        if not 0 <= index < len(self.shown):
            return None
        file = io.BytesIO()
        _to_image(self.shown[index]).save(file, "PNG")
        return file.getvalue()


def collect(predictor: Predictor, run: Path, folders: Folders, count: int) -> Examples:
    """Look at up to `count` of the run's labelled pictures; `DataError` if they are not there, or are others now.

    Who has chosen the folders is asked first, then the run, whose settings may name paths relative to where it began.
    """
    settings = predictor.config.data
    if not isinstance(settings, PictureConfig):
        raise DataError("the run was trained on points, not on pictures")
    began = _read_json(run / ENVIRONMENT)
    places = [*(folder.absolute() for folder in folders), *map(Path, began.get("data_folders", []))]
    stored = _read_json(run / SPLIT)
    with _where_it_began(began), _as_data_error():
        found = pictures.load(settings, places)
        if any(stored.get(key) != found.manifest[key] for key in ("class_names", "labeled")):
            raise DataError("the labelled pictures are not those that the run was trained with any more")
        images, labels = found.roles["labeled"]
        return _look(predictor, images, settings.size, evenly(labels, count), labels)


def evenly(labels: NDArray[np.int32], count: int) -> NDArray[np.int64]:
    """Rows of up to `count` examples, in turn one of each class, in the order that they have."""
    turn = np.zeros(len(labels), np.int64)
    for label in np.unique(labels):
        own = np.flatnonzero(labels == label)
        turn[own] = np.arange(len(own))
    return np.sort(np.argsort(turn, kind="stable")[:count])


def to_length_1(features: NDArray[np.float32]) -> NDArray[np.float32]:
    """Along the last axis; nothing at all stays nothing."""
    length = np.linalg.norm(features, axis=-1, keepdims=True)
    return np.asarray(features / np.where(length > 0, length, 1), np.float32)


def _look(
    predictor: Predictor, images: Images, size: int, rows: NDArray[np.int64], labels: NDArray[np.int32]
) -> Examples:
    """Read and describe a batch at a time: large pictures are not all in memory at once."""
    shown: list[Pictures] = []
    kept: list[int] = []
    features: list[NDArray[np.float32]] = []
    step = predictor.batch_size()
    for start in range(0, len(rows), step):
        batch = {int(row): picture for row, picture in _readable(images, size, rows[start : start + step])}
        if batch:
            features.append(predictor.features(np.stack(list(batch.values()))))
            kept += batch
            shown += [_small(picture) for picture in batch.values()]
    if not kept:
        raise DataError("none of the labelled pictures can be read any more")
    return Examples(tuple(shown), labels[kept], to_length_1(np.concatenate(features)))


def _readable(images: Images, size: int, rows: NDArray[np.int64]) -> Iterator[tuple[int, Pictures]]:
    for row in rows:
        try:
            yield row, read(images, int(row), size)
        except BadImage:  # one that was damaged since is one less to show
            continue


def _small(picture: Pictures) -> Pictures:
    image = _to_image(picture)
    if max(image.size) > SHOWN_SIDE:
        image.thumbnail((SHOWN_SIDE, SHOWN_SIDE))
    return np.array(image)


def _to_image(picture: Pictures) -> Image.Image:
    return Image.fromarray(picture[..., 0] if picture.ndim == 3 and picture.shape[-1] == 1 else picture)


@contextmanager
def _where_it_began(began: dict[str, Any]) -> Iterator[None]:
    folder = Path(began.get("folder", ""))
    with chdir(folder) if folder.is_dir() else nullcontext():
        yield


@contextmanager
def _as_data_error() -> Iterator[None]:
    """Whatever is wrong with the data, it is a sentence, not the end: the network answers without them."""
    try:
        yield
    except (ConfigError, OSError, ValueError) as error:
        raise DataError(str(error)) from None


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict):
        raise DataError(f"{path.name} of the run is missing or damaged, which tells which pictures it was trained with")
    return found
