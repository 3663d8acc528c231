"""Projection heads on top of a network's features, for stages that learn without labels.

    projection = g(features(x))        prediction = q(projection)

A head's weights belong to the stage: they are in its state and its checkpoints, and the network that comes out of the
stage does not have them. The network's classifier gets no gradient here; the next stage trains it.

The weights are one tree, {"network": …, "projector": …, "predictor": …}, so that one optimizer moves them all.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

import jax
from flax import linen as nn

from metapl.models.layers import whole
from metapl.models.norm import BatchNorm
from metapl.types import Array, Network, PyTree, Weights

NETWORK = "network"


class HeadPerceptron(nn.Module):
    """[N, D] → [N, widths[-1]]: dense layers with ReLU between them."""

    widths: tuple[int, ...]
    norm: Literal["none", "hidden", "all"] = "none"
    """Which layers have batch norm: none, those before a ReLU, or the last one, too."""

    @nn.compact
    def __call__(self, x: Array, *, train: bool) -> Array:
        last = len(self.widths) - 1
        for i, width in enumerate(self.widths):
            has_norm = self.norm == "all" or (self.norm == "hidden" and i < last)
            x = nn.Dense(width, use_bias=not has_norm, promote_dtype=whole, name=f"dense{i}")(x)
            x = BatchNorm(name=f"norm{i}")(x, train=train) if has_norm else x
            x = nn.relu(x) if i < last else x
        return x


class EncoderWithHeads(NamedTuple):
    """A network without its classifier, and the heads that its features go through, one after another."""

    network: Network
    heads: Mapping[str, nn.Module]

    def init(self, key: Array, inputs: Array, start: Weights | None) -> Weights:
        """Draw the heads' weights, and the network's if there is no `start`."""
        network = self.network.init(key, inputs) if start is None else start
        params, stats = {NETWORK: network.params}, {NETWORK: network.stats}
        x = jax.eval_shape(lambda: self.network.features(*network, inputs, train=False))[0]
        for i, (name, head) in enumerate(self.heads.items()):
            variables = head.init(jax.random.fold_in(key, i), jax.numpy.zeros(x.shape, x.dtype), train=False)
            params[name], stats[name] = variables["params"], variables.get("batch_stats", {})
            x = jax.eval_shape(lambda v, x, head=head: head.apply(v, x, train=False), variables, x)
        return Weights(params, stats)

    def apply(self, params: PyTree, stats: PyTree, inputs: Array, key: Array) -> tuple[dict[str, Array], PyTree]:
        """Return what each head gives in training mode, by its name, and the statistics after the pass.

        A head whose weights are not among the parameters is left out.
        """
        x, moved = self.network.features(params[NETWORK], stats[NETWORK], inputs, train=True, key=key)
        outputs, new_stats = {}, {NETWORK: moved}
        for name, head in self.heads.items():
            if name not in params:
                continue
            variables = {"params": params[name], "batch_stats": stats[name]}
            x, changed = head.apply(variables, x, train=True, mutable=["batch_stats"])
            outputs[name], new_stats[name] = x, changed.get("batch_stats", stats[name])
        return outputs, new_stats


def network_of(weights: Weights) -> Weights:
    """Return the network's weights, which go to the next stage; the heads stay behind."""
    return Weights(weights.params[NETWORK], weights.stats[NETWORK])


def without(weights: Weights, head: str) -> Weights:
    """Return the weights without those of one head."""
    return Weights(*({name: tree for name, tree in part.items() if name != head} for part in weights))
