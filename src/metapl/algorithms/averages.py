"""A moving average of the weights as a method's memory: the teacher of Mean Teacher, ICT and SimMatch."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax

from metapl.types import Array, Learner, PyTree, Weights


def follow_weights(decay: float) -> Callable[[Weights, Learner], Weights]:
    """Return `Objective.follow` for a memory that is the average of the weights."""

    def follow(average: Weights, student: Learner) -> Weights:
        weights: Weights = follow_tree(average, student.current, student.updates, decay)
        return weights

    return follow


def follow_tree(average: PyTree, now: PyTree, t: Array | int, decay: float) -> PyTree:
    """θ' = α_t θ' + (1 − α_t) θ, with α_t = min(1 − 1 / (t + 1), decay) after update t."""
    t = jnp.asarray(t, jax.tree.leaves(average)[0].dtype)
    kept = jnp.minimum(1 - 1 / (t + 1), decay)
    return optax.incremental_update(now, average, 1 - kept)
