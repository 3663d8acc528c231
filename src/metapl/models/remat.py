"""Blocks whose activations are computed again in the backward pass, except for what is small.

kept       the means and variances of batch norm, the means of squeeze-excite, the narrow end of a block
computed   all other activations, from the block's input
"""

from typing import TypeVar

import jax
from flax import linen as nn
from jax.ad_checkpoint import checkpoint_name

from metapl.types import Array

BlockClass = TypeVar("BlockClass", bound=type[nn.Module])

KEPT = "kept"


def kept(array: Array) -> Array:
    """Keep this array for the backward pass, if the block around it is computed again there."""
    return checkpoint_name(array, KEPT)


def maybe_remat(block: BlockClass, remat: bool) -> BlockClass:
    """Make the block compute its activations again in the backward pass instead of storing them, if `remat`.

    `train` must be the third argument of its call.
    """
    policy = jax.checkpoint_policies.save_only_these_names(KEPT)
    return nn.remat(block, static_argnums=(2,), policy=policy) if remat else block
