"""What a step's numbers are like: how often each class is given, how right that is, and whose numbers are finite."""

from collections.abc import Collection

import jax.numpy as jnp

from metapl.types import PSEUDO_LABELS, Array, Metrics

HISTOGRAM = "pseudo_label_histogram"
FINITE = "finite_"  # before a network's name: the share of steps at which its losses and gradients are finite
ANSWERS = ("feedback", "feedback_cosine")  # the student's answer: it breaks where the student's update does


def score(metrics: Metrics, truth: Array | None) -> Metrics:
    """Put numbers in the place of the labels: a histogram [C] that sums to 1, and the accuracy among known truths."""
    scored = {name: value for name, value in metrics.items() if name != PSEUDO_LABELS} | finite_shares(metrics)
    labels = metrics.get(PSEUDO_LABELS)
    if labels is None:
        return scored
    scored[HISTOGRAM] = jnp.mean(labels, axis=0)
    if truth is not None:
        known = truth >= 0
        right = known & (jnp.argmax(labels, axis=-1) == truth)
        scored["pseudo_label_accuracy"] = jnp.sum(right) / jnp.maximum(jnp.sum(known), 1)
    return scored


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
