"""A batch in microbatches, one after another: the memory of one microbatch, the gradient of the whole batch.

    logits = [S(x_1), …, S(x_k)]        x_j: every k-th example, from the j-th on

The activations of a microbatch are freed after its forward pass and computed again for its backward pass, for any kind
of derivative. So losses are still those of the whole batch, and methods need not know. It costs one more forward pass.

In training mode, batch norm then sees one microbatch at a time ("ghost batch norm", Hoffer et al., 2017) and normalises
it with its own mean and variance, so a step differs from that of the whole batch, unless the network has no batch norm.
The running statistics change once a step, to the mean of what each microbatch would have made of them.
If labelled, weak and strong views are passed together, each microbatch has an equal share of each.
"""

import functools

import jax
import jax.numpy as jnp

from metapl.schema import ConfigError
from metapl.system.microbatches import join, split
from metapl.types import Apply, Array, Network, PyTree


def in_microbatches(network: Network, count: int) -> Network:
    """Return the network whose training passes take `count` equal microbatches of a batch one after another."""
    if count == 1:
        return network

    def with_dropout(rate: float) -> Network:
        return in_microbatches(network.with_dropout(rate), count)

    apply, features = (_cut(function, count) for function in (network.apply, network.features))
    return network._replace(apply=apply, features=features, with_dropout=with_dropout)


def _cut(whole: Apply, count: int) -> Apply:
    def apply(
        params: PyTree, stats: PyTree, inputs: Array, *, train: bool, key: Array | None = None
    ) -> tuple[Array, PyTree]:
        if not train:
            return whole(params, stats, inputs, train=False, key=key)

        @functools.partial(jax.checkpoint, prevent_cse=False)  # a loop keeps the two computations apart by itself
        def forward(params: PyTree, microbatch: Array, number: Array) -> tuple[Array, PyTree]:
            own_key = None if key is None else jax.random.fold_in(key, number)
            return whole(params, stats, microbatch, train=True, key=own_key)

        def next_microbatch(total: PyTree, numbered: tuple[Array, Array]) -> tuple[PyTree, Array]:
            outputs, new_stats = forward(params, *numbered)
            return jax.tree.map(jnp.add, total, new_stats), outputs

        if len(inputs) % count:
            raise ConfigError(f"microbatches = {count} does not divide a pass of {len(inputs)} examples")
        zeros = jax.tree.map(jnp.zeros_like, stats)
        names = ("batch", None, "width", None) if inputs.ndim == 4 else ("batch", *(None,) * (inputs.ndim - 1))
        total, outputs = jax.lax.scan(next_microbatch, zeros, (split(inputs, count, names), jnp.arange(count)))
        return join(outputs), jax.tree.map(lambda leaf: leaf / count, total)

    return apply
