"""From a batch as it is stored to the views that networks see."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import jax
from annotated_types import Ge

from metapl.types import Array, Batch, Views


@dataclass(frozen=True)
class Augmentation:
    """What the weak and the strong view do to an example."""

    jitter: Annotated[float, Ge(0)] = 0.0
    """Strong view: standard deviation of Gaussian noise added to each feature."""


def build(config: Augmentation) -> Callable[[Batch, Array], Views]:
    """Make the function from (batch, key) to views."""

    def views(batch: Batch, key: Array) -> Views:
        strong = batch.unlabeled
        if config.jitter:
            strong = strong + config.jitter * jax.random.normal(key, strong.shape, strong.dtype)
        return Views(batch.labeled, batch.labels, batch.unlabeled, strong)

    return views
