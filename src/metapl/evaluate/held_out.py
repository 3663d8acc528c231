"""How good a trained network is on held-out data: the test examples and, if there are any, the validation examples."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from metapl.augment.views import Augmentation
from metapl.data.sources.dataset import Dataset
from metapl.data.sources.on_disk import Examples
from metapl.evaluate.measures import Scores, confusion, score
from metapl.inference.batches import EVALUATION, even_size, most_at_once
from metapl.inference.forward import Forward, of_seeds
from metapl.train.loop import Trained
from metapl.types import Network


class Examined(NamedTuple):
    """One seed's network at one time."""

    test: Scores
    confusion: NDArray[np.int64]  # [true class, predicted class], of the test examples
    val: Scores | None


def examine(trained: Trained, augmentation: Augmentation, datasets: Sequence[Dataset]) -> list[Examined]:
    """Evaluate each seed's network on its data; this draws no random numbers and changes no training state."""
    parts, size = held_out(datasets), examined_at_once(trained, augmentation, datasets)
    test, *val = [logits(trained, augmentation, part, size) for part in parts]
    examined = []
    for seed, dataset in enumerate(datasets):
        val_scores = score(val[0][seed], dataset.val_labels) if val and dataset.val_labels is not None else None
        test_scores = score(test[seed], dataset.test_labels, dataset.test_real)
        examined.append(Examined(test_scores, confusion(test[seed], dataset.test_labels), val_scores))
    return examined


def held_out(datasets: Sequence[Dataset]) -> list[list[Examples]]:
    """The test examples and, if there are any, the validation examples: of each seed, or once if all share them."""
    distinct = _distinct(datasets)
    parts = [[dataset.test for dataset in distinct]]
    if distinct[0].val is not None:
        parts.append([dataset.val for dataset in distinct if dataset.val is not None])
    return parts


def examined_at_once(trained: Trained, augmentation: Augmentation, datasets: Sequence[Dataset]) -> int:
    """How many examples of each seed are in a batch of an evaluation."""
    return batch_size(held_out(datasets), augmentation, trained.network, _seeds(trained), trained.layout.devices)


def accuracies(trained: Trained, augmentation: Augmentation, datasets: Sequence[Dataset]) -> NDArray[np.float64]:
    """Share of each seed's test examples that its network gets right: [R]."""
    return np.array([examined.test.accuracy for examined in examine(trained, augmentation, datasets)])


def logits(
    trained: Trained, augmentation: Augmentation, examples: Sequence[Examples], size: int | None = None
) -> NDArray[np.float32]:
    """Logits of each seed's network for its own examples, or for the same ones if there is one array: [R, N, C].

    All batches have the same size, the last one is filled up: they need one compilation.
    """
    size = size or batch_size([examples], augmentation, trained.network, _seeds(trained), trained.layout.devices)
    return of_seeds(Forward(trained.network, augmentation, layout=trained.layout), trained.weights, examples, size)


def batch_size(
    parts: Sequence[Sequence[Examples]], augmentation: Augmentation, network: Network, seeds: int, devices: int = 1
) -> int:
    """How many examples of each seed are in a batch, for all these parts of the data."""
    most = most_at_once(EVALUATION, parts[0][0].shape[1:], augmentation, network, seeds)
    return even_size(max(len(part[0]) for part in parts), most, devices)


def _distinct(datasets: Sequence[Dataset]) -> Sequence[Dataset]:
    """Each seed's data set, or the only one if all seeds share it."""
    return datasets[:1] if all(dataset is datasets[0] for dataset in datasets) else datasets


def _seeds(trained: Trained) -> int:
    return len(jax.tree.leaves(trained.weights)[0])
