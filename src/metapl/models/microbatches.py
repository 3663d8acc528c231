"""A batch in parts, one after another: the memory of one part, the gradient of the whole batch.

    logits = [S(x_1), …, S(x_k)]        x_j: every k-th example, from the j-th on

Each part's activations are forgotten after its forward pass and computed again for its backward pass, whatever
derivative is asked for: losses are still of the whole batch, and no method knows of it. It costs one more forward pass.

In training mode, batch norm then sees one part at a time ("ghost batch norm", Hoffer et al., 2017): each part is
normalised with its own mean and variance, so that a step is not that of the whole batch, except where a network has no
batch norm. The running statistics move once a step, by the mean over the parts of what each would have made of them.
Labelled, weak and strong views that are passed together are in each part in equal shares (parts.py).
"""

import functools

import jax
import jax.numpy as jnp

from metapl.schema import ConfigError
from metapl.system.parts import cut, join
from metapl.types import Array, Network, PyTree


def in_parts(network: Network, parts: int) -> Network:
    """Make the network whose training passes go through so many equal parts of a batch."""
    if parts == 1:
        return network

    def apply(
        params: PyTree, stats: PyTree, inputs: Array, *, train: bool, key: Array | None = None
    ) -> tuple[Array, PyTree]:
        if not train:
            return network.apply(params, stats, inputs, train=False, key=key)

        @functools.partial(jax.checkpoint, prevent_cse=False)  # a loop keeps the two computations apart by itself
        def answer(params: PyTree, part: Array, number: Array) -> tuple[Array, PyTree]:
            own_key = None if key is None else jax.random.fold_in(key, number)
            return network.apply(params, stats, part, train=True, key=own_key)

        def next_part(total: PyTree, part: tuple[Array, Array]) -> tuple[PyTree, Array]:
            logits, new_stats = answer(params, *part)
            return jax.tree.map(jnp.add, total, new_stats), logits

        if len(inputs) % parts:
            raise ConfigError(f"microbatches = {parts} does not divide a pass of {len(inputs)} examples")
        nothing = jax.tree.map(jnp.zeros_like, stats)
        names = ("batch", None, "width", None) if inputs.ndim == 4 else ("batch", *(None,) * (inputs.ndim - 1))
        total, logits = jax.lax.scan(next_part, nothing, (cut(inputs, parts, names), jnp.arange(parts)))
        return join(logits), jax.tree.map(lambda leaf: leaf / parts, total)

    def with_dropout(rate: float) -> Network:
        return in_parts(network.with_dropout(rate), parts)

    return network._replace(apply=apply, with_dropout=with_dropout)
