"""Several views of every picture as features, in one file: [N, 1 + 2 V, D] float16.

Place 0 is the eval view, the only one if V is 0. Places 1 to V are weak views, places V + 1 to 2 V the strong views
made from them, as the loop makes them. The file grows batch by batch, and a later call continues it after a stop or a
crash; it is the same file, bit for bit. A batch's randomness depends on its first row alone.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from numpy.typing import NDArray

from metapl.augment import views
from metapl.augment.strong import distort
from metapl.augment.views import Augmentation
from metapl.data.loading.files_loader import in_turn
from metapl.data.sources.on_disk import Examples
from metapl.inference.predictions_file import PredictionsFile
from metapl.types import Array

BATCH = 256  # pictures encoded at a time; the views of a batch depend on it

Encode = Callable[[Array], Array]  # uint8 [B, H, W, C] -> [B, D]; a jax.tree_util.Partial if it has many weights
Count = Callable[[int], None]  # rows done so far
Stored = NDArray[np.float16]


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
    # A Partial's weights are given to the program, not compiled into it.
    encoder = encode if isinstance(encode, Partial) else Partial(encode)
    of_batch = jax.jit(lambda encode, batch, key: _views(batch, key, encode, augmentation, pairs))
    shape = jax.eval_shape(
        of_batch, encoder, jax.ShapeDtypeStruct((BATCH, *pictures.shape[1:]), np.uint8), jax.random.key(0)
    ).shape
    file = PredictionsFile(path, origin | {"rows": len(pictures), "views": pairs}, shape[1] * shape[2])
    done = file.progress().rows
    count(done)
    start = done - done % BATCH
    for batch in in_turn(pictures, BATCH, start) if done < len(pictures) else ():
        filled = np.concatenate([batch, np.repeat(batch[-1:], BATCH - len(batch), 0)])
        features = np.asarray(of_batch(encoder, filled, jax.random.fold_in(jax.random.key(0), start)))[: len(batch)]
        file.write(start, features.reshape(len(batch), -1))
        start += len(batch)
        count(start)
    if done < len(pictures):
        file.finish()
    return file.read().reshape(len(pictures), *shape[1:])


def _views(pictures: Array, key: Array, encode: Encode, augmentation: Augmentation, pairs: int) -> Array:
    """All views of a batch, encoded: [B, 1 + 2 V, D]."""

    def pair(key: Array) -> tuple[Array, Array]:
        weak_key, strong_key = jax.random.split(key)
        weak = views.weak(augmentation, pictures, weak_key)
        return encode(weak), encode(distort(augmentation.strong, weak, strong_key))

    stacked = encode(pictures)[None]
    if pairs:
        weak, strong = jax.lax.map(pair, jax.random.split(key, pairs))
        stacked = jnp.concatenate([stacked, weak, strong])
    return jnp.moveaxis(stacked, 0, 1).astype(jnp.float16)
