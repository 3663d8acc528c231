"""The labelled batch as a network learns from it: which view, and whether mixed; alone or as MPL's teacher."""

from typing import Literal, NamedTuple

import jax

from metapl.augment.mixup import Mixture, draw
from metapl.types import Array, Views

MIXUP = 100  # which of a step's keys draws the mixture: far from those that a split gives


class Labeled(NamedTuple):
    """What is shown, and how to get at what is asked."""

    inputs: Array  # [B, ...]
    labels: Array  # [B] int32
    mixture: Mixture | None

    def targets(self, logits: Array) -> Array:
        """Labels [B], or what Mixup makes of them: [B, C]."""
        if self.mixture is None:
            return self.labels
        return self.mixture.mix(jax.nn.one_hot(self.labels, logits.shape[-1], dtype=logits.dtype))


def labeled_batch(views: Views, view: Literal["weak", "strong"], mixup: float, key: Array) -> Labeled:
    """Choose the view and mix it, with λ ~ Beta(mixup, mixup); 0 mixes nothing. `key` is the step's own."""
    inputs = views.labeled_as(view)
    if not mixup:
        return Labeled(inputs, views.labels, None)
    mixture = draw(jax.random.fold_in(key, MIXUP), len(inputs), mixup, inputs.dtype)
    return Labeled(mixture.mix(inputs), views.labels, mixture)
