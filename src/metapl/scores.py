"""Scores of one step: how often each class is a pseudo label, how many are right, which networks are finite."""

import jax.numpy as jnp

from metapl.metrics import HISTOGRAM, by_network
from metapl.types import PSEUDO_LABELS, Array, Metrics

RIGHT, KNOWN = "pseudo_label_accuracy", "pseudo_label_known"
FINITE = "finite_"  # before a network's name: the share of steps at which its losses and gradients are finite


def score(metrics: Metrics, truth: Array | None) -> Metrics:
    """Replace the pseudo labels by numbers: a histogram [C] that sums to 1, and the shares that are right and known.

    Both are shares of the batch, so that `over_known` can divide their means: a batch without a known truth then counts
    for nothing, and one with a single known truth for little.
    """
    scored = {name: value for name, value in metrics.items() if name != PSEUDO_LABELS} | finite_shares(metrics)
    labels = metrics.get(PSEUDO_LABELS)
    if labels is None:
        return scored
    scored[HISTOGRAM] = jnp.mean(labels, axis=0)
    if truth is not None:
        right = jnp.argmax(labels, axis=-1) == truth  # an unknown truth, −1, is no class
        scored[RIGHT], scored[KNOWN] = jnp.mean(right), jnp.mean(truth >= 0)
    return scored


def over_known(means: Metrics) -> Metrics:
    """Turn the share of right labels into the accuracy among known truths; 0 if none was known."""
    if KNOWN not in means:
        return means
    known = means[KNOWN]
    rest = {name: value for name, value in means.items() if name != KNOWN}
    return rest | {RIGHT: jnp.where(known > 0, means[RIGHT] / jnp.where(known > 0, known, 1), 0)}


def finite_shares(metrics: Metrics) -> Metrics:
    """Return 1 or 0 for each network: the mean over steps tells at which step the network broke."""
    shares = {}
    for network, names in by_network(metrics).items():
        values = jnp.stack([metrics[name] for name in names])
        shares[FINITE + network] = jnp.all(jnp.isfinite(values)).astype(values.dtype)
    return shares
