"""The labelled pictures that a network was trained with, and which of them are most similar to a new one.

Similar means: the network's features, which its last layer reads, point in nearly the same direction. Small copies of
up to `count` pictures, about as many of each class, are kept in memory; a running server reads nothing from disk.
"""

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
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
from metapl.system.folders import where_run_began

SHOWN_SIDE = 128  # pixels of the longer side of what a page shows


class NearExample(NamedTuple):
    """A labelled picture that is similar to a new one."""

    number: int  # among the examples
    label: int
    similarity: float  # the cosine of the angle between the features; 1: the network sees the same


@dataclass(frozen=True, eq=False)
class LabeledExamples:
    """Labelled pictures and a network's features of each."""

    shown: tuple[Pictures, ...]  # small ones, [H, W, C] each
    labels: NDArray[np.int32]
    features: NDArray[np.float32]  # [N, D], of length 1

    def __len__(self) -> int:
        return len(self.shown)

    def nearest(self, features: NDArray[np.float32], count: int) -> list[NearExample]:
        """The `count` most similar examples, the most similar first; equal ones keep their order."""
        similarities = self.features @ to_length_1(features)
        order = np.argsort(-similarities, kind="stable")[:count]
        return [NearExample(int(i), int(self.labels[i]), float(similarities[i])) for i in order]

    def png(self, index: int) -> bytes | None:
        """One example as a PNG file; None if no example has this number."""
        if not 0 <= index < len(self.shown):
            return None
        file = io.BytesIO()
        _to_image(self.shown[index]).save(file, "PNG")
        return file.getvalue()


def collect(predictor: Predictor, run: Path, folders: Folders, count: int) -> LabeledExamples:
    """Compute features of up to `count` of the run's labelled pictures; `DataError` if they are missing or changed.

    The given folders come first, then the run's own. Its settings may name paths relative to where the run began.
    """
    settings = predictor.config.data
    if not isinstance(settings, PictureConfig):
        raise DataError(f"the run's data ({settings.name}) are not picture files")
    environment, stored = _read_json(run / ENVIRONMENT), _read_json(run / SPLIT)
    with where_run_began(environment, folders) as places, _as_data_error():
        dataset = pictures.load(settings, places)
        if any(stored.get(key) != dataset.manifest[key] for key in ("class_names", "labeled")):
            raise DataError("the labelled pictures have changed since the run was trained with them")
        images, labels = dataset.roles["labeled"]
        return _with_features(predictor, images, settings.size, evenly(labels, count), labels)


def evenly(labels: NDArray[np.int32], count: int) -> NDArray[np.int64]:
    """Rows of up to `count` examples, about as many of each class, in ascending order."""
    turn = np.zeros(len(labels), np.int64)
    for label in np.unique(labels):
        of_class = np.flatnonzero(labels == label)
        turn[of_class] = np.arange(len(of_class))
    return np.sort(np.argsort(turn, kind="stable")[:count])


def to_length_1(features: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale vectors along the last axis to length 1; zero vectors stay zero."""
    length = np.linalg.norm(features, axis=-1, keepdims=True)
    return np.asarray(features / np.where(length > 0, length, 1), np.float32)


def _with_features(
    predictor: Predictor, images: Images, size: int, rows: NDArray[np.int64], labels: NDArray[np.int32]
) -> LabeledExamples:
    """Read pictures and compute their features a batch at a time, so that memory holds few large pictures at once."""
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
    return LabeledExamples(tuple(shown), labels[kept], to_length_1(np.concatenate(features)))


def _readable(images: Images, size: int, rows: NDArray[np.int64]) -> Iterator[tuple[int, Pictures]]:
    for row in rows:
        try:
            yield row, read(images, int(row), size)
        except BadImage:  # damaged since the training: leave it out
            continue


def _small(picture: Pictures) -> Pictures:
    image = _to_image(picture)
    if max(image.size) > SHOWN_SIDE:
        image.thumbnail((SHOWN_SIDE, SHOWN_SIDE))
    return np.array(image)


def _to_image(picture: Pictures) -> Image.Image:
    return Image.fromarray(picture[..., 0] if picture.ndim == 3 and picture.shape[-1] == 1 else picture)


@contextmanager
def _as_data_error() -> Iterator[None]:
    """Turn errors about the data into `DataError`: the server also works without labelled examples."""
    try:
        yield
    except (ConfigError, OSError, ValueError) as error:
        raise DataError(str(error)) from None


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        content = None
    if not isinstance(content, dict):
        raise DataError(f"the run's {path.name} is missing or damaged; it lists the pictures for the training")
    return content
