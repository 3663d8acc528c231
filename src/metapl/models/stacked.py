"""The equal blocks of a stage as one loop over their stacked weights.

The first block of a stage changes the shape; the blocks after it are equal. Without a loop, each of them is compiled.
As a loop (`scan`), they are compiled once, whatever their number: for EfficientNet-L2 that is 14 blocks instead of 88.
The weights of stage3_block1, stage3_block2, … are then one tensor each, with a leading axis for the blocks, under the
name stage3_blocks. Files hold each block's tensors separately, so that a file fits both kinds of networks.
"""

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from numpy.typing import NDArray

from metapl.types import STACKED, Array

FEWEST = 2  # blocks: with fewer, a loop is not worth it
_STACK = re.compile(rf"(?P<stage>(?:.*/)?stage\d+){STACKED}(?P<after>/.*)")


class Make(Protocol):
    """Makes a block of a stage."""

    def __call__(self, *, name: str) -> nn.Module: ...


def chain(
    make: Make, names: Sequence[str], x: Array, train: bool, *, scan: bool, settings: Sequence[float] = ()
) -> Array:
    """Apply equal blocks, one after another or as a loop; each gets (x, train) and its setting, if there are any."""
    own: list[tuple[float, ...]] = [(setting,) for setting in settings] or [()] * len(names)
    if not scan or len(names) < FEWEST:
        for name, setting in zip(names, own, strict=True):
            x = make(name=name)(x, train, *setting)
        return x

    def body(block: nn.Module, x: Array, setting: tuple[Array, ...]) -> tuple[Array, None]:
        return block(x, train, *setting), None

    loop: Callable[..., tuple[Array, None]] = nn.scan(
        body,
        variable_axes={"params": 0, "batch_stats": 0},
        split_rngs={"params": True, "dropout": True},
        length=len(names),
    )
    stack = make(name=names[0].rpartition("_")[0] + STACKED)
    return loop(stack, x, tuple(map(jnp.asarray, zip(*own, strict=True))))[0]


def unstack(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Split stacked tensors into one for each block, named by their paths; other tensors stay as they are."""
    separate: dict[str, Any] = {}
    for name, tensor in tensors.items():
        if match := _STACK.fullmatch(name):
            separate |= {f"{match['stage']}_block{i + 1}{match['after']}": tensor[i] for i in range(len(tensor))}
        else:
            separate[name] = tensor
    return separate


def unstacked_shapes(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """The shapes that `unstack` would give."""
    arrays = {name: np.broadcast_to(False, shape) for name, shape in shapes.items()}  # these take no memory
    return {name: array.shape for name, array in unstack(arrays).items()}


def stack(tensors: Mapping[str, NDArray[Any]], like: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Stack the blocks' tensors where `like` has them stacked."""
    together = dict(tensors)
    for name in like:
        if match := _STACK.fullmatch(name):
            names = (f"{match['stage']}_block{number}{match['after']}" for number in itertools.count(1))
            blocks = [together.pop(block) for block in itertools.takewhile(lambda block: block in tensors, names)]
            together[name] = np.stack(blocks)
    return together
