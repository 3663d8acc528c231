"""The encoders by name: functions from pictures to features, with what they learn kept beside the features.

An encoder that learns (patches; the scale of a network's features) does so from labelled and unlabelled pictures,
without labels, once for each cache folder.
"""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from metapl.data.sources.features import Features
from metapl.features import lite, patches
from metapl.features.patches import PatchSettings
from metapl.features.stored_views import Encode
from metapl.models import packages

Say = Callable[[str], None]
Pictures = NDArray[np.uint8]
BEST: Final = "efficientnet_lite0"  # of those that are pretrained; the others take longer
Learnt = TypeVar("Learnt", patches.Patches, lite.Scale)


def settled(config: Features) -> Features:
    """Replace the encoder `auto` by the one that this machine has."""
    if config.encoder != "auto":
        return config
    return dataclasses.replace(config, encoder=BEST if packages.installed(BEST) else "patches")


def identity(config: Features) -> list[Any]:
    """What the features depend on besides the pictures: the encoder's settings, and its weights' SHA-256."""
    if config.encoder in packages.NAMES:
        return [config.encoder, packages.checksum(config.encoder), config.encoder_size]
    return [config.encoder, config.components, config.centroids]


def build(config: Features, to_learn_from: Callable[[], Sequence[Pictures]], folder: Path, say: Say) -> Encode:
    """Make the function that encodes pictures; `to_learn_from` reads those that it learns from, if it has to."""
    if config.encoder == "pixels":
        return lambda batch: batch.reshape(len(batch), -1).astype(jnp.float32) / 255
    if config.encoder in packages.NAMES:
        network = lite.load(config.encoder, config.encoder_size)
        scale = _kept(folder / "scale.npz", lite.Scale, lambda: lite.learn_scale(network, to_learn_from()))
        return jax.tree_util.Partial(lite.encode, network, scale)

    def learn() -> patches.Patches:
        say(f"learning {config.centroids} patches from the pictures, without labels")
        settings = PatchSettings(centroids=config.centroids, components=config.components)
        return patches.learn(np.concatenate(to_learn_from()), settings)

    return partial(patches.encode, _kept(folder / "patches.npz", patches.Patches, learn))


def _kept(path: Path, kind: type[Learnt], learn: Callable[[], Learnt]) -> Learnt:
    """Read what was learnt before, or learn it and write it."""
    if path.exists():
        with np.load(path, allow_pickle=False) as kept:
            return kind(*(jnp.asarray(kept[name]) for name in kind._fields))
    learnt = learn()
    path.parent.mkdir(parents=True, exist_ok=True)
    growing = path.with_suffix(".new.npz")
    arrays: dict[str, Any] = {name: np.asarray(part) for name, part in learnt._asdict().items()}
    np.savez(growing, **arrays)
    growing.replace(path)
    return learnt
