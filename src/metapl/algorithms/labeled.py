"""The labelled batch that a network learns from: the weak or the strong view, mixed or not."""

from typing import Literal, NamedTuple

import jax

from metapl.augment.mixup import Mixture, draw
from metapl.types import Array, Views

MIXUP = 100  # folded into the step's key to draw the mixture: far from the numbers that a split uses


class Labeled(NamedTuple):
    """Inputs, and the labels that belong to them."""

    inputs: Array  # [B, ...]
    labels: Array  # [B] int32
    mixture: Mixture | None

    def targets(self, logits: Array) -> Array:
        """Return the labels [B], or with Mixup the mixed one-hot labels [B, C]."""
        if self.mixture is None:
            return self.labels
        return self.mixture.mix(jax.nn.one_hot(self.labels, logits.shape[-1], dtype=logits.dtype))


def labeled_batch(views: Views, view: Literal["weak", "strong"], mixup: float, key: Array) -> Labeled:
    """Choose the view and mix it with λ ~ Beta(mixup, mixup); 0 mixes nothing. `key` is the step's key."""
    inputs = views.labeled_as(view)
    if not mixup:
        return Labeled(inputs, views.labels, None)
    mixture = draw(jax.random.fold_in(key, MIXUP), len(inputs), mixup, inputs.dtype)
    return Labeled(mixture.mix(inputs), views.labels, mixture)
