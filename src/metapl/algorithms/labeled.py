"""The labelled batch that a network learns from: the weak or the strong view, mixed (Mixup, CutMix) or not."""

from typing import Literal, NamedTuple

import jax

from metapl.augment.cutmix import cut
from metapl.augment.mixup import Mixture, draw
from metapl.types import Array, Views

MIXUP = 100  # folded into the step's key to draw the mixture: far from the numbers that a split uses


class Labeled(NamedTuple):
    """Inputs, and the labels that belong to them."""

    inputs: Array  # [B, ...]
    labels: Array  # [B] int32
    mixture: Mixture | None

    def targets(self, logits: Array) -> Array:
        """Return the labels [B], or with Mixup and CutMix the mixed one-hot labels [B, C]."""
        if self.mixture is None:
            return self.labels
        return self.mixture.mix(jax.nn.one_hot(self.labels, logits.shape[-1], dtype=logits.dtype))


class CutMix(NamedTuple):
    """Settings of CutMix; α = 0 cuts nothing."""

    alpha: float = 0.0
    chance: float = 1.0


NO_CUTMIX = CutMix()


def labeled_batch(
    views: Views, view: Literal["weak", "strong"], mixup: float, key: Array, cutmix: CutMix = NO_CUTMIX
) -> Labeled:
    """Choose the view and mix it with λ ~ Beta(mixup, mixup), or cut it; 0 mixes nothing. `key` is the step's key."""
    inputs, own_key = views.labeled_as(view), jax.random.fold_in(key, MIXUP)
    if cutmix.alpha:
        inputs, mixture = cut(own_key, inputs, *cutmix)
        return Labeled(inputs, views.labels, mixture)
    if not mixup:
        return Labeled(inputs, views.labels, None)
    mixture = draw(own_key, len(inputs), mixup, inputs.dtype)
    return Labeled(mixture.mix(inputs), views.labels, mixture)
