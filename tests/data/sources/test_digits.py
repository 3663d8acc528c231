"""The embedded digits."""

import numpy as np
from sklearn.datasets import load_digits

from metapl.data.sources.digits import Digits, read
from metapl.data.sources.source import InMemory


def test_grey_levels_and_sizes() -> None:
    source = read(Digits(), [])
    train, test = source.parts["train"].images, source.parts["test"].images
    assert isinstance(train, InMemory)
    assert isinstance(test, InMemory)
    assert (train.array.shape, test.array.shape) == ((1437, 8, 8, 1), (360, 8, 8, 1))
    both = np.concatenate([train.array, test.array])[..., 0]
    np.testing.assert_array_equal(np.rint(both * (16 / 255)), load_digits().images)
    assert (both.min(), both.max()) == (0, 255)
    for part in source.parts.values():
        assert set(part.labels.tolist()) == set(range(10))
