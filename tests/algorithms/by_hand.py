"""What methods without labels compute, written out: a head with batch norm, directions, one step of SGD."""

import jax
import jax.numpy as jnp
import numpy as np

from metapl.types import Array, PyTree

RATE = 0.5


def dense(params: PyTree, x: Array) -> Array:
    return x @ params["kernel"] + params.get("bias", 0.0)


def norm(params: PyTree, x: Array) -> Array:
    mean = sum(x) / len(x)
    variance = sum((row - mean) ** 2 for row in x) / len(x)
    return params["scale"] * (x - mean) / jnp.sqrt(variance + 1e-3) + params["bias"]


def unit(vector: Array) -> Array:
    return vector / jnp.sqrt(jnp.sum(vector**2))


def descended(params: PyTree, loss, *given: PyTree) -> PyTree:
    """One step down; as one program, and the same one for other numbers that are given."""
    return jax.tree.map(lambda p, g: p - RATE * g, params, jax.jit(jax.grad(loss))(params, *given))


def assert_close(one: PyTree, other: PyTree) -> None:
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), one, other)
