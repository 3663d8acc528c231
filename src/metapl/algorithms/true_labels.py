"""What a student learns from true labels beside its pseudo labels: `labeled_weight` of two methods."""

from typing import NamedTuple

import jax.numpy as jnp

from metapl.algorithms.losses import cross_entropy
from metapl.types import Array, Learner, Network, PyTree, Views


class StudentPass(NamedTuple):
    """What one forward pass of a student gives."""

    logits: Array  # [U, C] of the unlabelled examples
    stats: PyTree  # the network's statistics after the pass
    labeled_loss: Array | None = None  # CE(y_l, S(x_l; θ_S)); None if the student sees no true labels


class TrueLabels(NamedTuple):
    """How a student learns from true labels."""

    weight: float  # factor of the labelled loss; 0: the student sees no labelled example
    smoothing: float

    def forward(
        self, network: Network, params: PyTree, student: Learner, views: Views, x_u: Array, key: Array
    ) -> StudentPass:
        """Pass the unlabelled examples, with the labelled ones in the same batch if the weight is above 0."""
        if not self.weight:
            logits, stats = network.apply(params, student.stats, x_u, train=True, key=key)
            return StudentPass(logits, stats)
        inputs = jnp.concatenate([views.labeled, x_u])
        logits, stats = network.apply(params, student.stats, inputs, train=True, key=key)
        labeled, unlabeled = jnp.split(logits, [len(views.labeled)])
        return StudentPass(unlabeled, stats, cross_entropy(views.labels, labeled, self.smoothing))
