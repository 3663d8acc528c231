"""A moving average of the weights as a method's memory: the teacher of Mean Teacher and of ICT."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax

from metapl.types import Learner, Weights


def follow_weights(decay: float) -> Callable[[Weights, Learner], Weights]:
    """θ' = α_t θ' + (1 − α_t) θ, with α_t = min(1 − 1 / (t + 1), decay) after update t."""

    def follow(average: Weights, student: Learner) -> Weights:
        t = jnp.asarray(student.updates, jax.tree.leaves(average)[0].dtype)
        kept = jnp.minimum(1 - 1 / (t + 1), decay)
        return optax.incremental_update(student.current, average, 1 - kept)

    return follow
