"""How good a trained network is on the examples it is asked about at the end."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from metapl.augment.views import Augmentation, eval_view
from metapl.data.dataset import Dataset
from metapl.train import Trained, over_seeds
from metapl.types import Array, Weights

BATCH = 2000  # examples answered at a time: bounds the memory that activations take

Examples = NDArray[np.generic]


def logits(trained: Trained, augmentation: Augmentation, examples: Sequence[Examples]) -> NDArray[np.float32]:
    """Answers of each seed's network to its own examples, or to the same ones if there is one array: [R, N, C]."""
    view = eval_view(augmentation)

    def answer(weights: Weights, examples: Array) -> Array:
        return trained.network.apply(weights.params, weights.stats, view(examples), train=False)[0]

    answer_all = jax.jit(over_seeds(answer, shared=1 if len(examples) == 1 else 0))
    answers = []
    for first in range(0, len(examples[0]), BATCH):
        some = [part[first : first + BATCH] for part in examples]
        inputs = jnp.asarray(some[0] if len(some) == 1 else np.stack(some))
        answers.append(np.asarray(answer_all(trained.weights, inputs)))
    return np.concatenate(answers, axis=1)


def accuracies(trained: Trained, augmentation: Augmentation, datasets: Sequence[Dataset]) -> NDArray[np.float64]:
    """Share of each seed's test examples that its network gets right: [R]."""
    shared = all(dataset is datasets[0] for dataset in datasets)
    asked = datasets[:1] if shared else datasets
    guesses = logits(trained, augmentation, [dataset.test for dataset in asked]).argmax(-1)
    labels = np.stack([dataset.test_labels for dataset in asked])
    return (guesses == labels).mean(-1)
