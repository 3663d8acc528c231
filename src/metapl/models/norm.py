"""Batch normalisation, the same for all networks.

In training mode with the mean and variance of the batch, which also move the running ones:
running ← decay · running + (1 − decay) · batch. In evaluation mode with the running ones.
The variance is the biased one (a sum over n, not n − 1) in both places, as in TensorFlow.

Convolutions stand between norms, so this is also the place that names the dimensions of activations: devices that
share the width of pictures keep it, instead of gathering whole pictures for a part of the channels.

flax has `nn.BatchNorm`, with the same formulas. This one stays because flax rounds differently (five steps of SGD with
a WideResNet-10-1 in float32: 29 of 41 arrays differ, by up to 5e-7), which would change published runs, and because its
output is of its input's type, bfloat16 too, without a dtype that every caller would have to give.
"""

import jax.numpy as jnp
from flax import linen as nn
from jax import lax

from metapl.models import pixel_sums
from metapl.models.remat import kept
from metapl.system.sharding import activations
from metapl.types import Array


class BatchNorm(nn.Module):
    """[..., C] → [..., C] of the same dtype; parameters and statistics are float32 whatever it is."""

    decay: float = 0.99
    epsilon: float = 1e-3
    scale_init: nn.initializers.Initializer = nn.initializers.ones

    @nn.compact
    def __call__(self, x: Array, *, train: bool) -> Array:
        shape, x = x.shape[-1:], activations(x)
        scale = self.param("scale", self.scale_init, shape, jnp.float32)
        bias = self.param("bias", nn.initializers.zeros, shape, jnp.float32)
        running_mean = self.variable("batch_stats", "mean", jnp.zeros, shape, jnp.float32)
        running_var = self.variable("batch_stats", "var", jnp.ones, shape, jnp.float32)

        def keep_running(mean: Array, var: Array) -> None:
            running_mean.value = self.decay * running_mean.value + (1 - self.decay) * mean
            running_var.value = self.decay * running_var.value + (1 - self.decay) * var

        if train and pixel_sums.suits(x):
            y, mean, var = pixel_sums.batch_norm(x, scale, bias, self.epsilon)
            keep_running(mean, var)
            return y
        wide = x.astype(jnp.float32)  # sums over a batch are too long for bfloat16
        if not train:
            mean, var = running_mean.value, running_var.value
        else:
            axes = tuple(range(x.ndim - 1))
            mean = wide.mean(axes)
            # E[x²] − E[x]² reads x once for both moments; rounding can take it below zero.
            var = jnp.maximum(lax.square(wide).mean(axes) - lax.square(mean), 0.0)
            mean, var = kept(mean), kept(var)
            keep_running(mean, var)
        return activations(((wide - mean) * (scale * lax.rsqrt(var + self.epsilon)) + bias).astype(x.dtype))
