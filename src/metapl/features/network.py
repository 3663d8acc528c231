"""An encoder from pretrained weights: any network of `init_from` (start_from/) without its classifier.

    u = the picture, scaled bilinearly; its shorter side is as long as the settings say
    F = what the network's classifier is given for (u / 255 − m) / d
    x = (F − μ) / σ

| symbol | name                                                                     |
|--------|--------------------------------------------------------------------------|
| m, d   | mean, std: those of the pictures that the network was trained on         |
| μ, 1/σ | mean, factor: of each feature, over a sample of the pictures (lite.py)   |

A grey picture is repeated in three channels.
"""

import hashlib
from typing import Any

import jax
import jax.numpy as jnp

from metapl.features.frozen import Frozen
from metapl.models.assemble import without_classifier
from metapl.models.heads import LAST, Heads
from metapl.schema import ConfigError, to_dict
from metapl.start_from.recognise import Pretrained, recognise, weight_shapes
from metapl.weights import load_features

USUAL = 0.5, 0.5  # mean and deviation of our own runs, unless their settings say otherwise
SIDE = 224  # of the pictures of a network that does not say it


def load(init_from: str, size: int) -> Frozen:
    """Read the network that `init_from` names; 0 as size is the network's own. Its features are not scaled yet."""
    found = _found(init_from)
    return of(found, size or found.side or SIDE, init_from)


def of(found: Pretrained, size: int, called: str = "") -> Frozen:
    """Make the encoder of a pretrained network."""
    expected = weight_shapes(found.model)
    if LAST not in expected.params:
        raise ConfigError(
            f"{called}: the network {found.model.name} cannot encode pictures; choose a network for pictures"
        )
    weights = jax.tree.map(jnp.asarray, load_features(found.file, expected, called))
    mean, std = (found.mean, found.std) if found.mean else ((USUAL[0],), (USUAL[1],))
    return Frozen(without_classifier(Heads(found.model, size), weights, mean, std))


def identity(init_from: str, size: int) -> list[Any]:
    """What the features depend on besides the pictures."""
    found = _found(init_from)
    with found.file.open("rb") as file:
        digits = hashlib.file_digest(file, "sha256").hexdigest()
    return ["network", digits, to_dict(found.model), *found.mean, *found.std, size or found.side or SIDE]


def _found(init_from: str) -> Pretrained:
    try:
        return recognise(init_from)
    except ConfigError as error:
        raise ConfigError(f"data.init_from: {error}") from None
