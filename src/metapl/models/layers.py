"""What the networks for pictures share: precision, convolutions, norms of channels, and the classifier at the end."""

from typing import Any, Literal

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax.linen.dtypes import promote_dtype

from metapl.models.convolution import convolve
from metapl.models.norm import BatchNorm
from metapl.system import runtime
from metapl.system.sharding import activations, gathered
from metapl.types import Array

Precision = Literal["float32", "bfloat16"]
DTYPES: dict[str, jnp.dtype] = {"float32": jnp.dtype("float32"), "bfloat16": jnp.dtype("bfloat16")}

# He et al. (2015) by the number of outputs, as in the released code of the paper: √(2 / (k · k · C_out)).
he_normal = nn.initializers.variance_scaling(2.0, "fan_out", "normal")
glorot_normal = nn.initializers.xavier_normal()


def conv(
    features: int,
    size: int,
    stride: int = 1,
    *,
    name: str,
    dtype: jnp.dtype,
    padding: str | int = "SAME",
    kernel_init: nn.initializers.Initializer = he_normal,
    use_bias: bool = False,
) -> "Conv":
    """Make a square convolution; by default, the norm that follows it has the bias."""
    return Conv(
        features,
        (size, size),
        stride,
        padding,
        use_bias=use_bias,
        dtype=dtype,
        kernel_init=kernel_init,
        promote_dtype=whole,
        conv_general_dilated=convolve,
        name=name,
    )


class Conv(nn.Conv):
    """flax's convolution, for pictures whose width several devices may share."""

    def __call__(self, inputs: Array) -> Array:
        stride = self.strides if isinstance(self.strides, int) else 1
        return super().__call__(activations(inputs, stride))


def max_pool(x: Array) -> Array:
    """[N, H, W, C] → [N, H/2, W/2, C]: the largest of each 3×3 square, with stride 2 and one pixel of padding."""

    def pooled(x: Array) -> Array:
        return nn.max_pool(x, (3, 3), (2, 2), ((1, 1), (1, 1)))

    # XLA for CPUs computes the gradient of a pooling in one thread: 14.7 ms for 16 pictures of 32×32×64. That of the
    # comparisons, which is the same, takes 1.2 ms.
    one_device = not jax.sharding.get_abstract_mesh().shape
    return runtime.on_cpus(_largest_of_squares, pooled, x) if one_device else pooled(x)


def _largest_of_squares(x: Array) -> Array:
    """Compute `max_pool` as comparisons of nine shifted pictures; of equal pixels the first one gets the gradient."""
    rows, columns = ((side - 1) // 2 + 1 for side in x.shape[1:3])
    padded = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=-jnp.inf)
    largest = None
    for a in range(3):
        for b in range(3):
            pixel = padded[:, a : a + 2 * rows - 1 : 2, b : b + 2 * columns - 1 : 2]
            largest = pixel if largest is None else jnp.where(pixel > largest, pixel, largest)
    assert largest is not None
    return largest


def whole(*arrays: Array | None, dtype: Any = None, inexact: bool = True) -> list[Array | None]:
    """Bring a layer's inputs and weights to one dtype, as flax does, and have the weights whole on every device.

    If each device stores a part of a kernel, they gather the kernel here, compute with it, and free it.
    """
    inputs, *weights = promote_dtype(*arrays, dtype=dtype, inexact=inexact)
    return [inputs, *(None if leaf is None else gathered(leaf) for leaf in weights)]


def classify(
    x: Array,
    classes: int,
    *,
    dropout: float,
    train: bool,
    hidden: int = 0,
    kernel_init: nn.initializers.Initializer = glorot_normal,
) -> Array:
    """[N, H, W, C] → logits [N, classes]: average over the picture, dropout, one dense layer named `head`.

    With `hidden` units, a dense layer with batch norm and ReLU comes before the dropout.

    Everything from the average on is float32: it costs nothing here, and losses need the digits.
    """
    features = x.astype(jnp.float32).mean((1, 2))
    if hidden:
        features = nn.Dense(hidden, use_bias=False, promote_dtype=whole, name="hidden")(features)
        features = nn.relu(BatchNorm(name="hidden_norm")(features, train=train))
    return decide(features, classes, dropout=dropout, train=train, kernel_init=kernel_init)


def decide(
    features: Array,
    classes: int,
    *,
    dropout: float,
    train: bool,
    kernel_init: nn.initializers.Initializer = glorot_normal,
) -> Array:
    """Features [N, C] → logits [N, classes]: dropout, one dense layer named `head`."""
    features = nn.Dropout(dropout, deterministic=not train)(features)
    return nn.Dense(classes, kernel_init=kernel_init, promote_dtype=whole, name="head")(features)


def channel_norm(epsilon: float, dtype: jnp.dtype, name: str) -> nn.LayerNorm:
    """Make a norm over the channels of each place alone. The two-pass variance is PyTorch's, and keeps its digits."""
    return nn.LayerNorm(epsilon, dtype, use_fast_variance=False, name=name)


class LayerScale(nn.Module):
    """[..., C] → the same, each channel times a learnt number (Touvron et al., 2021)."""

    start: float

    @nn.compact
    def __call__(self, x: Array) -> Array:
        scale = self.param("scale", nn.initializers.constant(self.start), x.shape[-1:], jnp.float32)
        return x * scale.astype(x.dtype)


def stochastic_depth(x: Array, survival: Array | float, key: Array) -> Array:
    """Keep each example of a batch with probability `survival`, scaled so that the mean stays; else all zeros."""
    keep = jax.random.bernoulli(key, survival, (len(x), *(1,) * (x.ndim - 1)))
    return jnp.where(keep, x / jnp.asarray(survival, x.dtype), 0)


def survivals(last: float, blocks: int) -> list[float]:
    """Probability that training keeps each block: block i of L with 1 − (1 − last) · i / L."""
    return [1 - (1 - last) * i / blocks for i in range(blocks)]
