"""What a network computes for stored examples: the eval view, no noise, running averages in batch norm.

`Forward` is the pure function, to be compiled or exported. `of_network`, `of_seed` and `of_seeds` compile it, once for
each `Forward` and size of batch, and go through any number of examples in batches (`batches.py`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from metapl.augment.views import Augmentation, eval_view
from metapl.data.sources.on_disk import Examples
from metapl.inference.batches import BatchRule, Rows, in_batches, most_at_once, sizes
from metapl.models.seeds import over_seeds
from metapl.system.sharding import SINGLE, Layout, as_networks_see, by_examples
from metapl.types import Array, Network, Weights

Output = Literal["logits", "probabilities", "features"]
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Forward:
    """A network's output for stored examples, as a function of its weights: [B, ...] -> [B, C]."""

    network: Network
    augmentation: Augmentation
    output: Output = "logits"
    """features: what the last dense layer is given; near each other for examples that the network finds similar."""
    temperature: float = 1.0
    """Logits are divided by it before they become probabilities."""
    layout: Layout = SINGLE

    def __call__(self, weights: Weights, examples: Array) -> Array:
        """Compute the output; pure."""
        seen = as_networks_see(eval_view(self.augmentation)(by_examples(examples)))
        apply = self.network.features if self.output == "features" else self.network.apply
        output, _ = apply(weights.params, weights.stats, seen, train=False)
        if self.output == "probabilities":
            output = jax.nn.softmax(output.astype(jnp.float32) / self.temperature)
        return self.layout.replicate(output)


def of_network(forward: Forward, weights: Weights, examples: NDArray[np.generic], rule: BatchRule) -> Floats:
    """Compute the output of one network for all examples: [N, C]."""
    most = most_at_once(rule, examples.shape[1:], forward.augmentation, forward.network)
    if not len(examples):
        return np.zeros((0, width(forward, weights, examples)), np.float32)

    def compute(rows: Rows) -> Rows:
        return np.asarray(_network(forward, weights, forward.layout.shard_rows(rows)))

    return np.concatenate(list(in_batches(compute, [examples], sizes(rule, len(examples), most))))


def of_seed(
    forward: Forward, weights: Weights, seed: int, examples: Examples, batch_sizes: Sequence[int], first: int = 0
) -> Iterator[Rows]:
    """Yield the output of one seed's network for the batches from row `first` on: [B, C].

    The weights of all seeds have a leading axis; those of one seed are not copied.
    """

    def compute(rows: Rows) -> Rows:
        return np.asarray(_seed(forward, weights, seed, forward.layout.shard_rows(rows)))

    return in_batches(compute, [examples], batch_sizes, first)


def of_seeds(forward: Forward, weights: Weights, examples: Sequence[Examples], batch_size: int) -> Floats:
    """Compute the output of each seed's network for its own examples, or for the only ones: [R, N, C]."""
    shared = len(examples) == 1
    batch_sizes = [batch_size] * -(-len(examples[0]) // batch_size)

    def compute(rows: Rows) -> Rows:
        return np.asarray(_seeds(forward, shared, weights, forward.layout.shard_rows(rows, leading=0 if shared else 1)))

    return np.concatenate(list(in_batches(compute, examples, batch_sizes)), axis=1)


def width(forward: Forward, weights: Weights, examples: Examples) -> int:
    """How many numbers the network gives for each example; nothing is computed."""
    one = jax.ShapeDtypeStruct((1, *examples.shape[1:]), examples.dtype)
    return int(jax.eval_shape(replace(forward, layout=SINGLE), weights, one).shape[-1])


def weight_shapes(network: Network, augmentation: Augmentation, example: Any) -> Weights:
    """Shapes of the network's weights for examples [1, ...] like this one, or like its shape; nothing is computed."""
    view = eval_view(augmentation)
    return jax.eval_shape(lambda key, one: network.init(key, view(one)), jax.random.key(0), example)


@partial(jax.jit, static_argnums=0)
def _network(forward: Forward, weights: Weights, examples: Array) -> Array:
    return forward.layout(forward.__call__)(weights, examples)


@partial(jax.jit, static_argnums=0)
def _seed(forward: Forward, weights: Weights, seed: Array, examples: Array) -> Array:
    # Sliced inside the program, one seed's weights are not copied: the network may fill half of the memory.
    own = jax.tree.map(lambda leaf: leaf[seed] if len(leaf) > 1 else leaf[0], weights)
    return forward.layout(forward.__call__)(own, examples)


@partial(jax.jit, static_argnums=(0, 1))
def _seeds(forward: Forward, shared: bool, weights: Weights, examples: Array) -> Array:
    return forward.layout(over_seeds(forward.__call__, shared=1 if shared else 0))(weights, examples)
