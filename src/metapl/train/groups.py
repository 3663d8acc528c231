"""How many seeds train at once, and which ones."""

import math
from typing import Literal

import jax

from metapl.config import Config
from metapl.data.sources.dataset import Dataset
from metapl.schema import ConfigError
from metapl.train.loop import shapes
from metapl.train.program import Program
from metapl.types import Weights

AtOnce = int | Literal["auto"]

# Above this, five seeds at once are not faster than one after another: 1.19 times with 564,000 weights, 0.98 times
# with 2,176,000 (perceptrons on `digits`, 2 cores; docs/evaluation.md).
MAX_WEIGHTS = 1_000_000


def groups(seeds: int, together: int) -> list[slice]:
    """Cut the seeds into groups of `together`; the last may be smaller, and then needs a program of its own."""
    return [slice(first, min(first + together, seeds)) for first in range(0, seeds, together)]


def seeds_together(at_once: AtOnce, seeds: int, config: Config, program: Program, dataset: Dataset) -> int:
    """How many seeds train at once: the number in the settings; for auto, all if the networks are small, else one."""
    if dataset.from_files:
        if at_once != "auto" and min(at_once, seeds) > 1:
            raise ConfigError(
                f"--seeds-at-once {at_once}: seeds whose pictures are fed from files train one after another; omit it, "
                "or decode all pictures first with --data.feed memory"
            )
        return 1
    if at_once != "auto":
        return min(at_once, seeds)
    small = all(is_small(shapes(config, network, dataset)) for network in set(program.networks))
    return seeds if small else 1


def is_small(weights: Weights) -> bool:
    """Whether several such networks train faster at once.

    Large layers do not: one network keeps the machine busy, and more of them only cost memory. Nor do convolutions,
    even small ones: `vmap` turns them into grouped ones.
    """
    leaves = jax.tree.leaves(weights.params)
    convolutions = any(len(leaf.shape) > 2 for leaf in leaves)
    return not convolutions and sum(math.prod(leaf.shape) for leaf in leaves) <= MAX_WEIGHTS
