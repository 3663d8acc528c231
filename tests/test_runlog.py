"""What a line says of the numbers."""

import numpy as np

from metapl.runlog import brief


def test_numbers_are_means_over_seeds_and_histograms_their_largest_share():
    assert brief(np.array([0.25, 0.75])) == "0.5"
    assert brief(np.array([[0.1, 0.9], [0.3, 0.7]])) == "max 0.8"
