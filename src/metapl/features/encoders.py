"""The encoders by name: functions from pictures to features, with what they learn kept beside the features.

An encoder that learns (patches; the scale of a network's features) does so from labelled and unlabelled pictures,
without labels, once for each cache folder.
"""

import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict
from numpy.typing import NDArray

from metapl.data.sources.features import Features
from metapl.features import lite, network, patches
from metapl.features.frozen import Frozen
from metapl.features.remembered import Remembered
from metapl.features.sample import sample
from metapl.features.stored_views import Encode
from metapl.models import packages
from metapl.models.assemble import Encoder
from metapl.models.patches import Patches
from metapl.schema import ConfigError

Say = Callable[[str], None]
Pictures = NDArray[np.uint8]
Values = NDArray[np.float32]
BEST: Final = "efficientnet_lite0"  # of those that are pretrained; the others take longer


def settled(config: Features) -> Features:
    """Replace the encoder `auto` by the one that this machine has."""
    if config.encoder != "auto":
        return config
    return dataclasses.replace(config, encoder=BEST if packages.installed(BEST) else "patches")


def identity(config: Features) -> list[Any]:
    """What the features depend on besides the pictures: the encoder's settings, and its weights' SHA-256."""
    if config.encoder == "network":
        return network.identity(config.init_from, config.encoder_size)
    if config.encoder in packages.NAMES:
        return [config.encoder, packages.checksum(config.encoder), config.encoder_size]
    return [config.encoder, config.components, config.centroids, patch_settings(config), *_shrunk(config)]


def build(config: Features, to_learn_from: Callable[[int], Sequence[Pictures]], folder: Path, say: Say) -> Encode:
    """Make the function that encodes pictures; `to_learn_from` reads so many that it learns from, if it has to."""
    if config.encoder == "pixels":
        return Pixels()
    if config.encoder == "network" or config.encoder in packages.NAMES:
        own = config.encoder == "network"
        pretrained = (network if own else lite).load(config.init_from if own else config.encoder, config.encoder_size)
        before = Remembered(pretrained, memory(config, folder))
        scale = _kept(folder / "scale.npz", lambda: lite.learn_scale(before, to_learn_from(lite.SAMPLE))._asdict())
        return pretrained.scaled(**scale)
    settings, shrunk = patch_settings(config), _shrunk(config)

    def learn() -> Mapping[str, Values]:
        say(f"learning {config.centroids} patches from the pictures, without labels")
        if shrunk:
            some = sample(to_learn_from(patches.LARGE_PICTURES), patches.LARGE_PICTURES)
        else:
            some = np.concatenate(to_learn_from(patches.PCA_PICTURES))
        return flatten_dict(patches.learn(some, settings, *shrunk), sep="/")

    return patches.frozen(unflatten_dict(_kept(folder / "patches.npz", learn), sep="/"), settings, *shrunk)


def remembering(encode: Encode, config: Features, folder: Path) -> Encode:
    """Let a pretrained encoder look up pictures as they are that it has encoded before; others stay the same."""
    if isinstance(encode, Frozen) and config.encoder != "patches":
        return Remembered(encode, memory(config, folder))
    return encode


def memory(config: Features, folder: Path) -> Path:
    """The file of a pretrained encoder's features, beside the folders of the sets of pictures."""
    digits = sha256(json.dumps(identity(config), default=str).encode()).hexdigest()[:16]
    return folder.parent / f"pictures-{digits}.sqlite"


def patch_settings(config: Features) -> Patches:
    """The network of the encoder `patches`."""
    return Patches(
        centroids=config.centroids,
        components=config.components,
        scales=config.scales,
        code=config.code,
        grid=config.grid,
        overlap=config.overlap,
    )


def _shrunk(config: Features) -> list[int]:
    """The side that pictures are shrunk to before patches are cut, if they are."""
    return [config.shrunk_to] if 0 < config.shrunk_to < config.size else []


def encoder_of(encode: Encode) -> Encoder:
    """The network behind a function that encodes, for a network of heads; ConfigError if there is none."""
    if not isinstance(encode, Frozen):
        raise ConfigError(
            "the encoder pixels is not a network, so heads cannot be put on it; choose patches or a network"
        )
    return encode.encoder


class Pixels:
    """The encoder that leaves pictures as they are."""

    def __call__(self, pictures: Pictures) -> Values:
        """Pixels from 0 to 1: [N, D]."""
        return pictures.reshape(len(pictures), -1).astype(np.float32) / np.float32(255)

    def width(self, shape: tuple[int, ...]) -> int:
        """How many pixels there are."""
        return math.prod(shape)


def _kept(path: Path, learn: Callable[[], Mapping[str, Values]]) -> dict[str, Values]:
    """Read what was learnt before, or learn it and write it."""
    if not path.exists():
        learnt: dict[str, Any] = {name: np.asarray(part) for name, part in learn().items()}
        path.parent.mkdir(parents=True, exist_ok=True)
        growing = path.with_suffix(".new.npz")
        np.savez(growing, **learnt)
        growing.replace(path)
    with np.load(path, allow_pickle=False) as kept:
        return {name: kept[name] for name in kept.files}
