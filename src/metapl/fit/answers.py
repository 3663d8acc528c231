"""What the two models say of the pictures that a verdict is about."""

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

MOST_UNLABELED, MOST_LABELED = 5000, 2000  # that are looked at: enough for every sentence about them

Logits = NDArray[np.float32]  # [N, classes], up to a constant for each picture


class Answers(NamedTuple):
    """One model's answers, and what its classifier was given."""

    val: Logits
    test: Logits
    unlabeled: Logits
    train_features: NDArray[np.float32]
    test_features: NDArray[np.float32]
    unlabeled_features: NDArray[np.float32]


class Asked(NamedTuple):
    """The pictures, by part; `unlabeled` are those of `rows` alone."""

    dataset: Dataset
    rows: NDArray[np.int64]  # of the unlabelled pictures
    test_names: tuple[str, ...]
    unlabeled_names: tuple[str, ...]  # of `rows`


def asked(config: PictureConfig, seed: int, has_unlabeled: bool) -> Asked:
    """Read the pictures once for both models."""
    named = pictures.load(config, ())
    count = len(named.images("unlabeled")) if has_unlabeled else 0
    rows = np.sort(np.random.RandomState(seed).permutation(count)[:MOST_UNLABELED])
    dataset = data.load(config, [0], ())[0]
    return Asked(
        dataset,
        rows,
        tuple(named.images("test").name(i) for i in range(len(named.images("test")))),
        tuple(named.images("unlabeled").name(int(i)) for i in rows),
    )


def answers(run: Path, asked: Asked) -> Answers:
    """Ask a finished run about all of them."""
    model, dataset = predictor.load(run), asked.dataset
    test, test_features = _about(model, dataset.test, None)
    unlabeled, unlabeled_features = _about(model, dataset.unlabeled, asked.rows)
    val = test[:0] if dataset.val is None else _about(model, dataset.val, None)[0]
    count = len(dataset.labeled)
    some = np.unique(np.linspace(0, count - 1, min(count, MOST_LABELED)).astype(np.int64))
    _, train_features = _about(model, dataset.labeled, some)
    return Answers(val, test, unlabeled, train_features, test_features, unlabeled_features)


def _about(
    model: predictor.Predictor, examples: Examples, rows: NDArray[np.int64] | None
) -> tuple[Logits, NDArray[np.float32]]:
    found = [(model.probabilities(some), model.features(some)) for some in _chosen(examples, rows, model.batch_size())]
    nothing = (np.zeros((0, len(model.class_names)), np.float32), np.zeros((0, 0), np.float32))
    probabilities, features = (np.concatenate(some) for some in zip(*(found or [nothing]), strict=True))
    return np.log(np.maximum(probabilities, 1e-30)), features


def _chosen(examples: Examples, rows: NDArray[np.int64] | None, size: int) -> Iterator[NDArray[np.generic]]:
    """The pictures of these rows, or all, a batch at a time; from files, no others are decoded."""
    if rows is None:
        yield from in_turn(examples, size)
        return
    if isinstance(examples, np.ndarray):
        yield from in_turn(examples[rows], size)
        return
    for start in range(0, len(rows), size):
        some = rows[start : start + size]
        yield np.concatenate([examples[int(row) : int(row) + 1] for row in some])
