"""DropBlock (Ghiasi et al., 2018): drop squares of a feature map, not single values, which their neighbours would show.

    γ      = rate / s² · H W / ((H − s + 1) (W − s + 1))        chance that a square of s × s begins at a place
    y      = x · kept · (number of values / number of kept values)

Each channel has squares of its own. In evaluation mode nothing is dropped.

The authors let the rate rise linearly during training. Here it is constant: a network does not know the step.
"""

import jax
import jax.numpy as jnp
from flax import linen as nn

from metapl.types import Array


class DropBlock(nn.Module):
    """[N, H, W, C] → the same shape."""

    rate: float
    size: int

    @nn.compact
    def __call__(self, x: Array, *, train: bool) -> Array:
        if not train or not self.rate:
            return x
        batch, height, width, channels = x.shape
        side = min(self.size, height, width)
        places = (height - side + 1) * (width - side + 1)
        gamma = self.rate / side**2 * height * width / places
        corners = jax.random.bernoulli(
            self.make_rng("dropout"), min(gamma, 1.0), (batch, height - side + 1, width - side + 1, channels)
        )
        pads = ((side - 1, side - 1), (side - 1, side - 1))
        dropped = nn.max_pool(corners.astype(x.dtype), (side, side), padding=pads)
        kept = 1 - dropped
        return x * kept * (kept.size / jnp.maximum(jnp.sum(kept, dtype=jnp.float32), 1)).astype(x.dtype)
