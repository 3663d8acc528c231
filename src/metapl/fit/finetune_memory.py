"""Whether the memory that is free suffices to finetune a network, before it is tried: the system would kill the fit.

A step takes, about,

    MARGIN (what the backward pass keeps of the forward pass + COPIES |θ|)

JAX says what it keeps without computing anything. XLA kept 0.84 of that for EfficientNet-Lite2 at 192 pixels.
"""

import jax
import jax.numpy as jnp

from metapl.evaluate.predictor import Predictor
from metapl.system import memory, runtime
from metapl.types import Array, PyTree

MARGIN = 1.25
COPIES = 4  # of the weights: they, their gradient, and two moments of the optimizer


def step_bytes(model: Predictor, pictures: int) -> float:
    """How much memory a step with so many pictures takes."""
    shape = jax.ShapeDtypeStruct((pictures, *model.example.shape), jnp.float32)
    params, stats = model.weights

    def kept(params: PyTree, inputs: Array) -> PyTree:
        def predict(params: PyTree) -> Array:
            return model.network.apply(params, stats, inputs, train=True, key=jax.random.key(0))[0]

        return jax.vjp(predict, params)[1]

    return MARGIN * (_bytes(jax.eval_shape(kept, params, shape)) + COPIES * _bytes(params))


def lacking(model: Predictor, pictures: int) -> str:
    """What is missing for a step with so many pictures, in words; empty if nothing is, or the system does not say."""
    free, needed = memory.memory()[1], step_bytes(model, pictures)
    if free is None or needed <= free or not runtime.is_cpu():
        return ""
    return f"it needs about {needed / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are free"


def _bytes(tree: PyTree) -> int:
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))
