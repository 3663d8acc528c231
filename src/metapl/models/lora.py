"""Low-rank adapters of dense layers (LoRA, Hu et al., 2022).

    y = x W + b + (α / r) x A B        W, b: fixed;  A [inputs, r], B [r, outputs]: learnt, B from 0

| symbol | name              |
|--------|-------------------|
| A, B   | down, up          |
| r, α   | rank, alpha       |

The adapter of the layer `qkv` is the module `qkv_lora` beside it. No gradient of W and b is computed; the optimizer
leaves all weights as they are but the adapters and the head (optim/by_layer.py). `merged` gives W + (α / r) A B.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from metapl.models.layers import whole
from metapl.types import ADAPTER, Array, PyTree


class AdaptedDense(nn.Module):
    """What an adapter adds to a dense layer's output: [..., inputs] → [..., features]."""

    features: int
    rank: int
    alpha: float
    dtype: jnp.dtype

    @nn.compact
    def __call__(self, x: Array) -> Array:
        down = self.param("down", nn.initializers.he_uniform(), (x.shape[-1], self.rank), jnp.float32)
        up = self.param("up", nn.initializers.zeros, (self.rank, self.features), jnp.float32)
        x, down, up = whole(x, down, up, dtype=self.dtype)  # type: ignore[assignment]
        return (x @ down @ up) * (self.alpha / self.rank)


def fixed(*arrays: Array | None, dtype: Any = None, inexact: bool = True) -> list[Array | None]:
    """Do what `whole` does, and stop the gradient of the weights."""
    inputs, *weights = whole(*arrays, dtype=dtype, inexact=inexact)
    return [inputs, *(None if leaf is None else jax.lax.stop_gradient(leaf) for leaf in weights)]


def merged(params: Mapping[str, Any], alpha: float) -> PyTree:
    """The parameters of the network without adapters that computes the same."""
    layers: dict[str, Any] = {}
    for name, layer in params.items():
        if name.endswith(ADAPTER):
            continue
        adapter = params.get(name + ADAPTER)
        if adapter is not None:
            change = adapter["down"] @ adapter["up"] * (alpha / adapter["down"].shape[-1])
            layer = {**layer, "kernel": layer["kernel"] + change}
        layers[name] = merged(layer, alpha) if isinstance(layer, Mapping) else layer
    return layers
