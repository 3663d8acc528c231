"""How many seeds train at once, and which ones together."""

import math
from typing import Literal

import jax

from metapl.config import Config
from metapl.data.dataset import Dataset
from metapl.train import Program, shapes
from metapl.types import Weights

AtOnce = int | Literal["auto"]

MAX_WEIGHTS = 1_000_000


def groups(seeds: int, together: int) -> list[slice]:
    """Cut the seeds into groups of `together`; only the last one may be smaller, and then it compiles once more."""
    return [slice(first, min(first + together, seeds)) for first in range(0, seeds, together)]


def seeds_together(at_once: AtOnce, seeds: int, config: Config, program: Program, dataset: Dataset) -> int:
    """Take the number that was asked for; or all seeds where the networks are small, and else one after another."""
    if at_once != "auto":
        return min(at_once, seeds)
    small = all(is_small(shapes(config, network, dataset)) for network in set(program.networks))
    return seeds if small else 1


def is_small(weights: Weights) -> bool:
    """Does a network gain from company?

    Convolutions do not: under `vmap` they become grouped ones, which are slow. Nor do large layers.
    """
    leaves = jax.tree.leaves(weights.params)
    convolutions = any(len(leaf.shape) > 2 for leaf in leaves)
    return not convolutions and sum(math.prod(leaf.shape) for leaf in leaves) <= MAX_WEIGHTS
