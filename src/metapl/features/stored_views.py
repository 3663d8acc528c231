"""Several views of every picture as features, in one file: [N, 1 + 2 V, D] float16.

Place 0 is the eval view, the only one if V is 0. Places 1 to V are weak views, places V + 1 to 2 V the strong views
made from them, as the loop makes them. The file grows batch by batch, and a later call continues it after a stop or a
crash; it is the same file, bit for bit. A batch's randomness depends on its first row alone.
"""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from metapl.augment import views
from metapl.augment.strong import distort
from metapl.augment.views import Augmentation
from metapl.data.loading.files_loader import in_turn
from metapl.data.sources.on_disk import Examples
from metapl.inference.predictions_file import PredictionsFile
from metapl.types import Array

LARGEST = float(np.finfo(np.float16).max)  # pictures that are nearly all the same can have larger features
BATCH = 64  # pictures whose views are made at a time, and depend on it

Count = Callable[[int], None]  # rows done so far
Stored = NDArray[np.float16]
Pictures = NDArray[np.uint8]


class Encode(Protocol):
    """An encoder."""

    def __call__(self, pictures: Pictures) -> NDArray[np.float32]:
        """Compute the features of pictures [N, H, W, C]: [N, D]."""

    def width(self, shape: tuple[int, ...]) -> int:
        """D, for pictures of this shape [H, W, C]."""


def compute(
    path: Path,
    origin: dict[str, Any],
    pictures: Examples,
    encode: Encode,
    augmentation: Augmentation,
    pairs: int,
    count: Count = lambda rows: None,
) -> Stored:
    """Compute what is missing of the file, and map it into memory: [N, 1 + 2 V, D]."""
    if not len(pictures):
        return np.zeros((0, 1 + 2 * pairs, 1), np.float16)
    shape = 1 + 2 * pairs, encode.width(pictures.shape[1:])
    file = PredictionsFile(path, origin | {"rows": len(pictures), "views": pairs}, math.prod(shape))
    done = file.progress().rows
    count(done)
    make_views = jax.jit(partial(_views, augmentation, pairs))
    start = done - done % BATCH
    for batch in in_turn(pictures, BATCH, start) if done < len(pictures) else ():
        shown = batch[:, None]
        if pairs:
            filled = np.concatenate([batch, np.repeat(batch[-1:], BATCH - len(batch), 0)])
            shown = np.asarray(make_views(filled, jax.random.fold_in(jax.random.key(0), start)))[: len(batch)]
        features = encode(shown.reshape(-1, *batch.shape[1:]).astype(np.uint8, copy=False))  # all views together
        file.write(start, np.clip(features, -LARGEST, LARGEST).astype(np.float16).reshape(len(batch), -1))
        start += len(batch)
        count(start)
    if not path.exists():  # also if a kill came after the last batch and before this
        file.finish()
    return file.read().reshape(len(pictures), *shape)


def _views(augmentation: Augmentation, pairs: int, pictures: Array, key: Array) -> Array:
    """All views of a batch, as pictures: [B, 1 + 2 V, H, W, C]."""

    def pair(key: Array) -> tuple[Array, Array]:
        weak_key, strong_key = jax.random.split(key)
        weak = views.weak(augmentation, pictures, weak_key)
        return weak, distort(augmentation.strong, weak, strong_key)

    weak, strong = jax.lax.map(pair, jax.random.split(key, pairs))
    return jnp.moveaxis(jnp.concatenate([pictures[None], weak, strong]), 0, 1)
