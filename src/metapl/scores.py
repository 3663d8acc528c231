"""What a step's numbers are like: how often each class is given, how right that is, and whose numbers are finite."""

from collections.abc import Collection

import jax.numpy as jnp

from metapl.types import PSEUDO_LABELS, Array, Metrics

HISTOGRAM = "pseudo_label_histogram"
RIGHT, KNOWN = "pseudo_label_accuracy", "pseudo_label_known"
FINITE = "finite_"  # before a network's name: the share of steps at which its losses and gradients are finite
ANSWERS = ("feedback", "feedback_cosine")  # the student's answer: it breaks where the student's update does


def score(metrics: Metrics, truth: Array | None) -> Metrics:
    """Put numbers in the place of the labels: a histogram [C] that sums to 1, and how many are right and known to be.

    Both as shares of the batch, so that `over_known` can divide their means: a batch without a known truth counts for
    nothing then, and one with a single known truth for little.
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
    """Turn the share of right labels into the accuracy among known truths; 0 where none was known."""
    if KNOWN not in means:
        return means
    known = means[KNOWN]
    others = {name: value for name, value in means.items() if name != KNOWN}
    return others | {RIGHT: jnp.where(known > 0, means[RIGHT] / jnp.where(known > 0, known, 1), 0)}


def finite_shares(metrics: Metrics) -> Metrics:
    """1 or 0 for each network: its mean over steps tells at which of them the network broke, to the step."""
    shares = {}
    for network, names in networks(metrics).items():
        values = jnp.stack([metrics[name] for name in names])
        shares[FINITE + network] = jnp.all(jnp.isfinite(values)).astype(values.dtype)
    return shares


def networks(names: Collection[str]) -> dict[str, list[str]]:
    """Sort losses, gradient norms and h by network: teacher and student where there are two, else one `network`."""
    other = "teacher" if any(name.startswith("teacher_") for name in names) else "network"
    found: dict[str, list[str]] = {}
    for name in names:
        network = "student" if name in ANSWERS or name.startswith("student_") else other
        if name in ANSWERS or name.endswith(("loss", "gradient_norm")):
            found.setdefault(network, []).append(name)
    return found


def learns_unlabeled(names: Collection[str]) -> bool:
    """Do these numbers come from a method that learns from unlabelled examples?"""
    return any(name in (HISTOGRAM, "student_agreement") for name in names)
