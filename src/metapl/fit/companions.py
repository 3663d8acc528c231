"""Companions: other encoders of the same pictures. What one network misses, another may show.

They are patches, if these are worth it (own_patches.py), and other pretrained networks. They are meant to take SHARE of
the budget: as many of them are used as that allows, and the memory that is free. All are put side by side under one
head (joint.py).
"""

import dataclasses
import itertools

import numpy as np

from metapl import data
from metapl.data.sources.features import Features
from metapl.features.encoders import encoder_of
from metapl.fit import encode, encoder, leave_out_foreign, own_patches
from metapl.fit import encoded as encoding
from metapl.fit import rung as rungs
from metapl.fit.climb import Climb, listening
from metapl.fit.encoded import Rows
from metapl.fit.joint_space import Part
from metapl.fit.kept_features import RoleFeatures
from metapl.models import packages
from metapl.models.patches import Patches
from metapl.recipe.aligned import DIRECTIONS
from metapl.runs import runlog
from metapl.schema import from_dict, to_dict
from metapl.system import memory

ALIGNED, LINEAR = "aligned", "linear"  # the rungs whose time tells how long training a head takes
SHARE, SHARE_WITH_PATCHES = 0.2, 0.3  # of the budget, and at most half of the time that is left
STARTING_S, STARTING_PATCHES_S = 20.0, 5.0  # to load and compile an encoder
NAMES = "companions"  # the decision in plan.json
COPIES = 2  # of one network's features, while its map is learnt


def candidates(climb: Climb) -> list[Features]:
    """The settings of all that could be used, the best one first; none if the user has chosen the encoder."""
    own = climb.features.settings
    chosen = climb.request.features != "auto" or climb.request.init_from
    if chosen or own.encoder not in packages.NAMES:
        return []
    others = [name for name in reversed(packages.NAMES) if name != own.encoder and packages.installed(name)]
    networks = [dataclasses.replace(own, encoder=name) for name in others]  # type: ignore[arg-type]
    return [own_patches.settings(own), *networks] if own_patches.are_used(climb) else networks


def chosen(climb: Climb) -> list[Features]:
    """Those that there is time and memory for, decided once; if there are none, a larger budget may allow some."""
    if (names := climb.plan.get(NAMES)) is not None:
        return [from_dict(Features, {key: value for key, value in one.items() if key != "name"}, {}) for one in names]
    possible = candidates(climb)
    share = SHARE_WITH_PATCHES if own_patches.are_used(climb) else SHARE
    most_s = min(share * climb.clock.budget_s, climb.left_s / 2)
    count = sum(end_s <= most_s for end_s in needed_s(climb, possible))
    while count and not in_memory(climb, count):
        count -= 1
    if count:
        climb.plan.decide(NAMES, [to_dict(one) for one in possible[:count]])
    return possible[:count]


def in_memory(climb: Climb, count: int) -> bool:
    """Whether there is memory for so many."""
    free = memory.memory()[1]
    return free is None or needed_bytes(climb, count) <= free


def needed_s(climb: Climb, some: list[Features]) -> list[float]:
    """About how long it takes with the first one, the first two, …: encoding, and training heads on all networks."""
    own = climb.features
    pictures = len(own.labels) + len(own.val) + len(own.test) + len(own.used)
    training_s = rungs.read(climb.out, ALIGNED if climb.has_unlabeled else LINEAR).seconds  # on one network
    each_s = (starting_s(one) + pictures * picture_s(climb, one) + training_s for one in some)
    return [training_s + sum_s for sum_s in itertools.accumulate(each_s)]


def starting_s(settings: Features) -> float:
    """How long it takes to load and compile an encoder; patches have encoded the labelled pictures already."""
    return STARTING_PATCHES_S if settings.encoder == "patches" else STARTING_S


def picture_s(climb: Climb, settings: Features) -> float:
    """About how long it takes to read and encode a picture, as far as the fit's own network tells."""
    own = climb.features.settings
    work = work_of(settings) / work_of(own)
    if encoded_s := climb.plan.get("encoded_s"):  # with reading
        view_s = min(encoded_s, climb.plan.get("view_s") or encoded_s)
        return float(encoded_s + (work - 1) * view_s)
    return encode.picture_s(climb, work)


def work_of(settings: Features) -> float:
    """How long an encoder takes for a picture, compared with EfficientNet-Lite0 at 128 pixels."""
    if settings.encoder == "patches":
        return own_patches.share_of_pixels(settings)
    return encoder.work(settings.encoder, settings.encoder_size)


def needed_bytes(climb: Climb, count: int) -> float:
    """About how much memory the features of so many take, and those of all networks in one space."""
    own = climb.features
    numbers = own.unlabeled.shape[-1] * (count + COPIES) + DIRECTIONS * (count + 1)
    return 4.0 * (len(own.labels) + len(own.used)) * numbers


def encode_all(climb: Climb) -> None:
    """Encode the pictures by each companion, or read what is kept; then `parts` has their features."""
    if climb.companions is None:
        climb.companions = [_part(climb, settings) for settings in chosen(climb)]


def _part(climb: Climb, settings: Features) -> Part:
    own = " learnt from your own pictures, which tell the classes apart, too" if settings.encoder == "patches" else ""
    climb.say(f"also encoding the pictures with {settings.encoder}{own}")
    if leave_out_foreign.read(climb.out).rows:
        settings = dataclasses.replace(settings, without=str((climb.out / leave_out_foreign.ROWS).absolute()))
    with listening(climb) as stop, runlog.progress(climb.console) as screen:
        prepared = data.prepare_features(settings, (), climb.say)
        pace = encode.Pace(screen.counting, stop)
        roles = {role: encoding.eval_view(prepared, role, pace) for role in RoleFeatures._fields}
    return Part(encoder_of(prepared.encode), RoleFeatures(**roles))


def parts(climb: Climb) -> list[Part]:
    """The fit's own pretrained network and its companions, with the features of all pictures that are used."""
    some = climb.features
    own = RoleFeatures(some.labeled, some.val, some.test, some.unlabeled)
    return weighed(climb, [Part(encoder_of(some.prepared.encode), own), *(climb.companions or [])])


def weighed(climb: Climb, some: list[Part]) -> list[Part]:
    """Let patches count w times as much as all pretrained networks together (own_patches.py)."""
    networks = sum(not is_patches(part) for part in some)
    weight = float(climb.plan.get(own_patches.WEIGHT) or 0.0) * np.sqrt(networks)
    return [part._replace(weight=weight) if is_patches(part) else part for part in some]


def is_patches(part: Part) -> bool:
    """Whether its features are of patches."""
    return isinstance(part.encoder.model.encoder, Patches)


def of_pictures(part: Part, rows: Rows, test: bool) -> Part:
    """The same with these rows of the unlabelled pictures that are used, and without the test pictures or with them."""
    seen = part.seen._replace(unlabeled=part.seen.unlabeled[rows])
    return part._replace(seen=seen if test else seen._replace(test=seen.test[:0]))
