"""Validation examples for data that have none: taken out of the unlabelled ones whose labels the source knows.

What is held out is trained on in no way. Who tunes with more validation labels than training labels tunes on labels
that a real user would rather train with (Oliver et al., 2018).
"""

import numpy as np

from metapl.data.sources.dataset import Dataset
from metapl.schema import ConfigError


def hold_out(dataset: Dataset, count: int, seed: int) -> Dataset:
    """Give `count` unlabelled examples with known labels to the validation part; the seed chooses them."""
    if not isinstance(dataset.unlabeled, np.ndarray):
        raise ConfigError(
            "examples can be held out of pictures in memory only; give the source a val part (docs/data.md)"
        )
    labeled = {example.tobytes() for example in np.asarray(dataset.labeled)}
    known = np.arange(0) if dataset.truth is None else np.flatnonzero(dataset.truth >= 0)
    chosen: list[int] = []
    for row in np.random.RandomState(seed).permutation(known):
        if len(chosen) == count:
            break
        if dataset.unlabeled[row].tobytes() not in labeled:  # some splits have the labelled examples here, too
            chosen.append(int(row))
    if dataset.truth is None or len(chosen) < count or count >= len(dataset.unlabeled):
        raise ConfigError(
            f"{count:,} validation examples were asked for, but only {len(chosen):,} unlabelled ones can be held out: "
            "they must have a known label and not be labelled training examples"
        )
    rest = np.setdiff1d(np.arange(len(dataset.unlabeled)), chosen)
    rows = np.sort(np.array(chosen))
    return dataset._replace(
        unlabeled=dataset.unlabeled[rest],
        truth=dataset.truth[rest],
        val=dataset.unlabeled[rows],
        val_labels=dataset.truth[rows],
    )
