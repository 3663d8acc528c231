"""What is told about pseudo labels, and about who is finite."""

import jax
import jax.numpy as jnp
import numpy as np

from metapl.metrics import HISTOGRAM, by_network, learns_unlabeled
from metapl.scores import FINITE, over_known, score
from metapl.types import PSEUDO_LABELS

LABELS = jax.nn.one_hot(jnp.array([0, 2, 2, 1]), 3)


def test_labels_become_a_histogram_and_an_accuracy_among_known_truths():
    metrics = over_known(score({"agreement": jnp.ones(()), PSEUDO_LABELS: LABELS}, jnp.array([0, 2, -1, 0])))
    assert set(metrics) == {"agreement", HISTOGRAM, "pseudo_label_accuracy"}
    np.testing.assert_allclose(metrics[HISTOGRAM], [0.25, 0.25, 0.5])
    np.testing.assert_allclose(metrics["pseudo_label_accuracy"], 2 / 3)


def test_without_truth_there_is_no_accuracy_and_without_labels_nothing():
    assert set(score({PSEUDO_LABELS: LABELS}, None)) == {HISTOGRAM}
    assert score({"agreement": jnp.ones(())}, jnp.array([0])).keys() == {"agreement"}


def test_a_batch_of_unknown_truths_counts_for_nothing():
    """Nobody knows the first batch; of the second, two labels are known, and one of them is right."""
    batches = [score({PSEUDO_LABELS: LABELS}, jnp.array(truth)) for truth in ([-1] * 4, [0, -1, -1, 2])]
    means = jax.tree.map(lambda *values: sum(values) / 2, *batches)
    assert over_known(means)["pseudo_label_accuracy"] == 0.5
    assert over_known(batches[0])["pseudo_label_accuracy"] == 0


def test_losses_gradients_and_h_belong_to_a_network():
    two = ["teacher_loss", "consistency_loss", "mask_rate", "student_gradient_norm", "student_agreement", "feedback"]
    assert by_network(two) == {
        "teacher": ["teacher_loss", "consistency_loss"],
        "student": ["student_gradient_norm", "feedback"],
    }
    assert by_network(["loss", "labeled_accuracy", "gradient_norm"]) == {"network": ["loss", "gradient_norm"]}


def test_each_network_says_whether_it_is_finite():
    good, bad = jnp.ones(()), jnp.full((), jnp.inf)
    metrics = score({"teacher_loss": good, "consistency_loss": bad, "student_loss": good}, None)
    assert metrics[FINITE + "teacher"] == 0
    assert metrics[FINITE + "student"] == 1


def test_who_learns_from_unlabelled_examples_gives_or_takes_labels():
    assert learns_unlabeled(["loss", HISTOGRAM])
    assert learns_unlabeled(["loss", "student_agreement"])
    assert not learns_unlabeled(["loss", "labeled_accuracy", "gradient_norm"])
