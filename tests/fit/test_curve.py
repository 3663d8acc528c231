"""The straight continuation of a learning curve."""

import pytest

from metapl.fit.curve import gain


def test_more_labels_gain_what_the_last_doublings_gained():
    assert gain([25, 50, 100, 200], [0.2, 0.5, 0.6, 0.7], more=200) == pytest.approx(0.1)  # the first is too early
    assert gain([50, 100], [0.5, 0.4], more=100) == 0.0
    assert gain([50, 100], [0.9, 0.99], more=1000) == pytest.approx(0.01)
    assert gain([100], [0.5]) is None
