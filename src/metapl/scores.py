"""What a step's pseudo labels are like: how often each class is given and, where the truth is known, how right."""

import jax.numpy as jnp

from metapl.types import PSEUDO_LABELS, Array, Metrics

HISTOGRAM = "pseudo_label_histogram"


def score(metrics: Metrics, truth: Array | None) -> Metrics:
    """Put numbers in the place of the labels: a histogram [C] that sums to 1, and the accuracy among known truths."""
    labels = metrics.get(PSEUDO_LABELS)
    if labels is None:
        return metrics
    scored = {name: value for name, value in metrics.items() if name != PSEUDO_LABELS}
    scored[HISTOGRAM] = jnp.mean(labels, axis=0)
    if truth is not None:
        known = truth >= 0
        right = known & (jnp.argmax(labels, axis=-1) == truth)
        scored["pseudo_label_accuracy"] = jnp.sum(right) / jnp.maximum(jnp.sum(known), 1)
    return scored
