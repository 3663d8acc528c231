"""Patches learnt from the user's own pictures, beside pretrained networks: how much they count, if they are used.

Networks that know ImageNet see little in pictures that are unlike its photos (digits, clothes, scans, textures);
patches (models/patches.py) see little in photos. So the labelled pictures tell how much each is worth, before any other
picture is encoded by patches:

    a = the correlation of cos(x_p − x̄, x_q − x̄) with [y_p = y_q], over all pairs p < q of labelled pictures
    w = min(MOST, (a_patches / a_network)²)

Patches are used if w is at least LEAST; in the space of all networks (joint_space.py) they count w times as much as all
pretrained ones together. a is the alignment of a kernel with the labels (Cristianini et al., 2001). With fewer than
LABELS labels a class, w is mostly chance, and patches are not used.

| symbol | name                                      |
|--------|-------------------------------------------|
| x, y   | features, labels of the labelled pictures |
| a      | alignment                                 |
| w      | weight                                    |
"""

import dataclasses

import numpy as np
from numpy.typing import NDArray

from metapl import data
from metapl.data.sources.features import Features
from metapl.features.patches import LARGE_PICTURES, PCA_PICTURES
from metapl.fit import encode
from metapl.fit import encoded as encoding
from metapl.fit.climb import Climb, listening
from metapl.fit.encoded import Labels, Values
from metapl.fit.plan import LARGEST_FOR_PATCHES, PATCHES
from metapl.fit.unit_vectors import unit_vectors
from metapl.models import packages
from metapl.runs import runlog

WEIGHT = "patches_weight"  # the decision in plan.json
LEAST, MOST = 0.4, 2.0
LABELS = 4  # a class
PAIRED = 1000  # labelled pictures of which pairs are made
# About, on a busy machine and without reading pictures, by the share of 64×64 pixels that a picture has.
LEARNING_S, LEARNING_LARGE_S = 5.0, 25.0
LEARNING_BYTES = 10**9  # about, without the pictures: most of it to find principal directions


def may_be_tried(climb: Climb) -> bool:
    """Whether the fit has chosen a pretrained network itself, and there are enough labels to compare both."""
    chosen, some = climb.request.features != "auto" or climb.request.init_from, climb.features
    enough = len(some.labels) >= LABELS * len(some.class_names)
    return not chosen and some.settings.encoder in packages.NAMES and enough


def are_used(climb: Climb) -> bool:
    """Whether they were found to be worth it."""
    return float(climb.plan.get(WEIGHT) or 0.0) >= LEAST


def learning_s(climb: Climb) -> float:
    """About how long it takes to read pictures and to learn patches from them."""
    reading_s = learnt_from(climb) * float(climb.plan.get("read_s") or 0.0)
    return LEARNING_S + LEARNING_LARGE_S * share_of_pixels(climb.features.settings) + reading_s


def share_of_pixels(settings: Features) -> float:
    """How many pixels patches are cut from, compared with the largest pictures."""
    return float(min(1.0, (settings.size / LARGEST_FOR_PATCHES) ** 2))


def learning_bytes(climb: Climb) -> float:
    """About how much memory that takes; pictures are there twice while they are put together."""
    return LEARNING_BYTES + 2.0 * 3 * learnt_from(climb) * climb.features.settings.size**2


def learnt_from(climb: Climb) -> int:
    """How many pictures are read."""
    total = len(climb.features.labels) + climb.facts["unlabeled"]
    return min(total, LARGE_PICTURES if climb.features.settings.size > LARGEST_FOR_PATCHES else PCA_PICTURES)


def settings(own: Features) -> Features:
    """The settings of their features; large pictures are shrunk as `metapl fit` does without a pretrained network."""
    return dataclasses.replace(own, encoder="patches", shrunk_to=LARGEST_FOR_PATCHES, **PATCHES)


def weigh(climb: Climb) -> None:
    """Learn patches, encode the labelled pictures by them, and decide how much they count, once."""
    if climb.plan.get(WEIGHT) is not None:
        return
    with listening(climb) as stop, runlog.progress(climb.console) as screen:
        prepared = data.prepare_features(settings(climb.features.settings), (), climb.say)
        patches = encoding.eval_view(prepared, "labeled", encode.Pace(screen.counting, stop))
    climb.plan.decide(WEIGHT, weight(patches, climb.features.labeled, climb.features.labels))


def weight(patches: Values, network: Values, labels: Labels) -> float:
    """w: how much patches count, compared with the pretrained network."""
    some = np.random.RandomState(0).permutation(len(labels))[:PAIRED]
    of_patches, of_network = (max(0.0, alignment(x[some], labels[some])) for x in (patches, network))
    return round(min(MOST, (of_patches / max(of_network, 1e-6)) ** 2), 3)


def alignment(x: Values, y: Labels) -> float:
    """a: how well the similarity of two pictures tells whether they are of one class; 0 if all or no pairs are."""
    pairs = np.triu_indices(len(y), 1)
    near = unit_vectors(x - x.mean(0))
    cosines: NDArray[np.float64] = (near @ near.T)[pairs].astype(np.float64)
    same = (y[:, None] == y)[pairs].astype(np.float64)
    spread = cosines.std() * same.std()
    return float(np.mean((cosines - cosines.mean()) * (same - same.mean())) / spread) if spread > 0 else 0.0
