"""What the two models predict for the pictures that a verdict is about."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl import data
from metapl.data import pictures
from metapl.data.loading.files_loader import in_turn
from metapl.data.sources.dataset import Dataset
from metapl.data.sources.on_disk import Examples
from metapl.data.sources.source import PictureConfig
from metapl.evaluate import predictor

MOST_UNLABELED, MOST_LABELED = 5000, 2000  # pictures to predict: enough for every sentence about them

Logits = NDArray[np.float32]  # [N, classes], up to a constant for each picture


class ModelPredictions(NamedTuple):
    """One model's predictions, and the features that its last layer received."""

    val: Logits
    test: Logits
    unlabeled: Logits
    labeled_features: NDArray[np.float32]
    test_features: NDArray[np.float32]
    unlabeled_features: NDArray[np.float32]


class VerdictPictures(NamedTuple):
    """The pictures that both models predict."""

    dataset: Dataset
    unlabeled_rows: NDArray[np.int64]  # the unlabelled pictures to predict
    test_names: tuple[str, ...]
    unlabeled_names: tuple[str, ...]  # of `unlabeled_rows`


def read_pictures(config: PictureConfig, seed: int, has_unlabeled: bool) -> VerdictPictures:
    """Read the pictures once for both models."""
    stored = pictures.load(config, ())
    test, unlabeled = stored.images("test"), stored.images("unlabeled")
    count = len(unlabeled) if has_unlabeled else 0
    rows = np.sort(np.random.RandomState(seed).permutation(count)[:MOST_UNLABELED])
    return VerdictPictures(
        data.load(config, [0], ())[0],
        rows,
        tuple(test.name(i) for i in range(len(test))),
        tuple(unlabeled.name(int(i)) for i in rows),
    )


def predict(run: Path, about: VerdictPictures) -> ModelPredictions:
    """Load the model of a finished run and predict all of the pictures."""
    model, dataset = predictor.load(run), about.dataset
    test, test_features = _predict_rows(model, dataset.test, None)
    unlabeled, unlabeled_features = _predict_rows(model, dataset.unlabeled, about.unlabeled_rows)
    val = test[:0] if dataset.val is None else _predict_rows(model, dataset.val, None)[0]
    count = len(dataset.labeled)
    spread = np.unique(np.linspace(0, count - 1, min(count, MOST_LABELED)).astype(np.int64))
    _, labeled_features = _predict_rows(model, dataset.labeled, spread)
    return ModelPredictions(val, test, unlabeled, labeled_features, test_features, unlabeled_features)


def _predict_rows(
    model: predictor.Predictor, examples: Examples, rows: NDArray[np.int64] | None
) -> tuple[Logits, NDArray[np.float32]]:
    batches = [
        (model.probabilities(batch), model.features(batch)) for batch in _batches(examples, rows, model.batch_size())
    ]
    empty = (np.zeros((0, len(model.class_names)), np.float32), np.zeros((0, 0), np.float32))
    probabilities, features = (np.concatenate(arrays) for arrays in zip(*(batches or [empty]), strict=True))
    return np.log(np.maximum(probabilities, 1e-30)), features


def _batches(examples: Examples, rows: NDArray[np.int64] | None, size: int) -> Iterator[NDArray[np.generic]]:
    """The pictures of these rows (None: all), a batch at a time; no other file is decoded."""
    if rows is None:
        yield from in_turn(examples, size)
        return
    if isinstance(examples, np.ndarray):
        yield from in_turn(examples[rows], size)
        return
    for start in range(0, len(rows), size):
        yield np.concatenate([examples[int(row) : int(row) + 1] for row in rows[start : start + size]])
