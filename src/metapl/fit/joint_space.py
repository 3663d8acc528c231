"""One space for the features of several networks: the leading directions of each, all equally spread.

    z   = [s_1 V_1ᵀ x_1, s_2 V_2ᵀ x_2, …]            x_i: the features by network i
    s_i = w_i √(1,280 / the mean of ‖V_iᵀ (x_i − mean x_i)‖²)

A linear head on z is one on all x: its weights for x_i are s_i V_i times those for its part of z.

| symbol  | name                                                                        |
|---------|-----------------------------------------------------------------------------|
| V       | directions: orthonormal, of the largest variance (recipe/aligned.py)        |
| s V     | maps                                                                        |
| w       | weight: how much a network counts                                           |
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from metapl.fit.encoded import Values
from metapl.fit.kept_features import RoleFeatures
from metapl.models.assemble import Encoder, Head, linear, side_by_side
from metapl.recipe.aligned import SQUARE, leading


class Part(NamedTuple):
    """A network, what it gives for the pictures, and how much it counts."""

    encoder: Encoder
    seen: RoleFeatures
    weight: float = 1.0


class Space(NamedTuple):
    """z, and how it was made."""

    encoders: tuple[Encoder, ...]
    maps: tuple[Values, ...]
    seen: RoleFeatures

    def network(self, head: Head) -> tuple[Encoder, Head]:
        """The networks side by side, and the head on their features that equals this one on z."""
        layer = head.weights.params["Dense_0"]
        kernel, bias = np.asarray(layer["kernel"]), np.asarray(layer["bias"])
        ends = np.cumsum([one.shape[1] for one in self.maps])[:-1]
        rows = [one @ own for one, own in zip(self.maps, np.split(kernel, ends), strict=True)]
        return side_by_side(self.encoders), linear(np.concatenate(rows).T, bias)


@threadpool_limits.wrap(limits=1)  # type: ignore[untyped-decorator]  # several threads add up in any order: other bits
def join(parts: Sequence[Part]) -> Space:
    """Put the features of several networks into one space, which is learnt from labelled and unlabelled pictures."""
    maps = tuple(_map(part) for part in parts)
    seen = RoleFeatures(
        *(
            np.concatenate([x @ own for x, own in zip(role, maps, strict=True)], -1)
            for role in zip(*(part.seen for part in parts), strict=True)
        )
    )
    return Space(tuple(part.encoder for part in parts), maps, seen)


def _map(part: Part) -> Values:
    """s V: [D, d]."""
    x = np.concatenate([part.seen.labeled, part.seen.unlabeled])
    x = x - x.mean(0)
    directions = leading(x)
    square = float(np.mean(np.sum((x @ directions) ** 2, -1)))
    return np.asarray(part.weight * np.sqrt(SQUARE / max(square, 1e-12)) * directions, np.float32)
