"""Validation examples for data that have none: unlabelled examples whose labels the source knows.

Held-out examples are not used for training. Tuning with more validation labels than training labels is unrealistic: a
real user would rather train on them (Oliver et al., 2018).
"""

import numpy as np

from metapl.data.sources.dataset import Dataset
from metapl.schema import ConfigError


def hold_out(dataset: Dataset, count: int, seed: int) -> Dataset:
    """Give `count` unlabelled examples with known labels the role val; the seed chooses them."""
    if not isinstance(dataset.unlabeled, np.ndarray):
        raise ConfigError(
            "examples can be held out only if the pictures are in memory; give the source a val part (docs/data.md)"
        )
    labeled = {example.tobytes() for example in np.asarray(dataset.labeled)}
    known = np.arange(0) if dataset.truth is None else np.flatnonzero(dataset.truth >= 0)
    chosen: list[int] = []
    for row in np.random.RandomState(seed).permutation(known):
        if len(chosen) == count:
            break
        # In some splits the labelled examples are also among the unlabelled ones.
        if dataset.unlabeled[row].tobytes() not in labeled:
            chosen.append(int(row))
    if dataset.truth is None or len(chosen) < count or count >= len(dataset.unlabeled):
        raise ConfigError(
            f"{count:,} validation examples were requested, but only {len(chosen):,} unlabelled ones can be held out: "
            "they must have a known label and must not be labelled examples, too"
        )
    rest = np.setdiff1d(np.arange(len(dataset.unlabeled)), chosen)
    rows = np.sort(np.array(chosen))
    return dataset._replace(
        unlabeled=dataset.unlabeled[rest],
        truth=dataset.truth[rest],
        val=dataset.unlabeled[rows],
        val_labels=dataset.truth[rows],
    )
