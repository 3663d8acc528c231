"""How good a trained network is on what is held out: the test part and, where there is one, the validation part."""

import math
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from metapl.augment.views import Augmentation, eval_view, is_picture
from metapl.data.loading.files_loader import in_turn
from metapl.data.sources.dataset import Dataset
from metapl.data.sources.on_disk import Examples
from metapl.evaluate.measures import Scores, confusion, score
from metapl.system.sharding import Layout, as_networks_see, by_examples
from metapl.train.loop import Trained
from metapl.train.program import over_seeds
from metapl.types import Array, Network, Weights

# What is answered at a time bounds the memory that activations take: 2,048 pictures of 32², 41 of 224², 8 of 512².
MAX_EXAMPLES, MAX_PIXELS = 2048, 2**21


class Examined(NamedTuple):
    """One seed's network at one time."""

    test: Scores
    confusion: NDArray[np.int64]  # [right class, answer], of the test part
    val: Scores | None


def examine(trained: Trained, augmentation: Augmentation, datasets: Sequence[Dataset]) -> list[Examined]:
    """Ask each seed's network about its data; nothing random is drawn, and nothing of a training state is touched."""
    parts, size = held_out(datasets), examined_at_once(trained, augmentation, datasets)
    test, *val = [logits(trained, augmentation, part, size) for part in parts]
    found = []
    for seed, dataset in enumerate(datasets):
        val_scores = score(val[0][seed], dataset.val_labels) if val and dataset.val_labels is not None else None
        test_scores = score(test[seed], dataset.test_labels, dataset.test_real)
        found.append(Examined(test_scores, confusion(test[seed], dataset.test_labels), val_scores))
    return found


def held_out(datasets: Sequence[Dataset]) -> list[list[Examples]]:
    """What networks are asked about: the test part and, where there is one, the validation part."""
    asked = _shared(datasets)
    parts = [[dataset.test for dataset in asked]]
    if asked[0].val is not None:
        parts.append([dataset.val for dataset in asked if dataset.val is not None])
    return parts


def examined_at_once(trained: Trained, augmentation: Augmentation, datasets: Sequence[Dataset]) -> int:
    """How many examples are answered at a time when networks are examined."""
    return batch_size(held_out(datasets), augmentation, _seeds(trained), trained.layout.devices)


def accuracies(trained: Trained, augmentation: Augmentation, datasets: Sequence[Dataset]) -> NDArray[np.float64]:
    """Share of each seed's test examples that its network gets right: [R]."""
    return np.array([found.test.accuracy for found in examine(trained, augmentation, datasets)])


def logits(
    trained: Trained, augmentation: Augmentation, examples: Sequence[Examples], size: int | None = None
) -> NDArray[np.float32]:
    """Answers of each seed's network to its own examples, or to the same ones if there is one array: [R, N, C].

    All batches have the same size, the last one is filled up: one compilation answers them all.
    """
    size = size or batch_size([examples], augmentation, _seeds(trained), trained.layout.devices)
    total, shared, answers = len(examples[0]), len(examples) == 1, []
    batches = zip(*(in_turn(part, size) for part in examples), strict=True)
    for first, batch in zip(range(0, total, size), batches, strict=True):
        some = [_filled_up(part, size) for part in batch]
        inputs = trained.layout.shard_rows(some[0] if shared else np.stack(some), leading=0 if shared else 1)
        answer = _answer(trained.network, augmentation, shared, trained.layout, trained.weights, inputs)
        answers.append(np.asarray(answer)[:, : total - first])
    return np.concatenate(answers, axis=1)


def batch_size(parts: Sequence[Sequence[Examples]], augmentation: Augmentation, seeds: int, devices: int = 1) -> int:
    """How many examples of each seed are answered at a time: as even a share as the limits of all devices allow."""
    example, longest = parts[0][0], max(len(part[0]) for part in parts)
    pixels = 1
    if is_picture(example):
        pixels = max(math.prod(example.shape[1:3]), augmentation.size**2)
    limit = devices * max(1, min(MAX_EXAMPLES, MAX_PIXELS // (pixels * seeds)))
    return math.ceil(longest / math.ceil(longest / limit) / devices) * devices


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _answer(
    network: Network, augmentation: Augmentation, shared: bool, layout: Layout, weights: Weights, examples: Array
) -> Array:
    """One program for a network and a size of batch, however often and for however many seeds in turn it is asked."""
    view = eval_view(augmentation)

    def answer(weights: Weights, examples: Array) -> Array:
        seen = as_networks_see(view(by_examples(examples)))
        return layout.replicate(network.apply(weights.params, weights.stats, seen, train=False)[0])

    return layout(over_seeds(answer, shared=1 if shared else 0))(weights, examples)


def _filled_up(examples: NDArray[np.generic], size: int) -> NDArray[np.generic]:
    """Repeat the last example until there are `size`."""
    return (
        examples if len(examples) == size else np.concatenate([examples, examples[-1:].repeat(size - len(examples), 0)])
    )


def _shared(datasets: Sequence[Dataset]) -> Sequence[Dataset]:
    """The one data set of all seeds, or each seed's own."""
    return datasets[:1] if all(dataset is datasets[0] for dataset in datasets) else datasets


def _seeds(trained: Trained) -> int:
    return len(jax.tree.leaves(trained.weights)[0])
