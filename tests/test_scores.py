"""What is told about pseudo labels."""

import jax
import jax.numpy as jnp
import numpy as np

from metapl.scores import HISTOGRAM, score
from metapl.types import PSEUDO_LABELS

LABELS = jax.nn.one_hot(jnp.array([0, 2, 2, 1]), 3)


def test_labels_become_a_histogram_and_an_accuracy_among_known_truths():
    metrics = score({"loss": jnp.ones(()), PSEUDO_LABELS: LABELS}, jnp.array([0, 2, -1, 0]))
    assert set(metrics) == {"loss", HISTOGRAM, "pseudo_label_accuracy"}
    np.testing.assert_allclose(metrics[HISTOGRAM], [0.25, 0.25, 0.5])
    np.testing.assert_allclose(metrics["pseudo_label_accuracy"], 2 / 3)


def test_without_truth_there_is_no_accuracy_and_without_labels_nothing():
    assert set(score({PSEUDO_LABELS: LABELS}, None)) == {HISTOGRAM}
    assert score({"loss": jnp.ones(())}, jnp.array([0])).keys() == {"loss"}


def test_a_batch_of_unknown_truths_is_no_division_by_zero():
    assert score({PSEUDO_LABELS: LABELS}, jnp.full(4, -1))["pseudo_label_accuracy"] == 0
