"""Companions: other pretrained networks that encode the pictures, too. What one network misses, another may show.

Their features take seconds to minutes, and never more than SHARE of the budget. Networks of one family that see
pictures of one size can be put side by side under one head (joint.py).
"""

import dataclasses
import itertools

from metapl import data
from metapl.data.sources.features import Features
from metapl.features.encoders import encoder_of
from metapl.fit import encoded as encoding
from metapl.fit import finetune_time
from metapl.fit.climb import Climb, listening
from metapl.fit.encode import Pace
from metapl.fit.encoded import Rows
from metapl.fit.encoder import FACTORS
from metapl.fit.joint_space import Part
from metapl.fit.kept_features import RoleFeatures
from metapl.models import packages
from metapl.runs import runlog

SHARE = 0.2  # of the budget, and at most half of the time that is left
STARTING_S = 20.0  # to compile an encoder, and to train a head six times


def candidates(climb: Climb) -> list[Features]:
    """The settings of all that could be used, the best one first; none if the user has chosen the encoder."""
    own = climb.features.settings
    chosen = climb.request.features != "auto" or climb.request.init_from
    if chosen or own.encoder not in packages.NAMES:
        return []
    others = [name for name in reversed(packages.NAMES) if name != own.encoder and packages.installed(name)]
    return [dataclasses.replace(own, encoder=name) for name in others]  # type: ignore[arg-type]


def chosen(climb: Climb) -> list[Features]:
    """Those that there is time for, decided once; if there are none, a larger budget may allow some later."""
    possible, most_s = candidates(climb), min(SHARE * climb.clock.budget_s, climb.left_s / 2)
    if (count := climb.plan.get("companions")) is None:
        ends_s = itertools.accumulate(needed_s(climb, settings) for settings in possible)
        if count := sum(end_s <= most_s for end_s in ends_s):
            climb.plan.decide("companions", count)
    return possible[:count]


def needed_s(climb: Climb, settings: Features) -> float:
    """About how long it takes to encode all pictures by this network, as far as the fit's own network tells."""
    some = climb.features
    pictures = len(some.labels) + len(some.val) + len(some.test) + len(some.used)
    ratio = FACTORS.get(settings.encoder, 1.0) / FACTORS.get(some.settings.encoder, 1.0)
    return STARTING_S + pictures * finetune_time.view_s(climb) * ratio


def encode(climb: Climb) -> None:
    """Encode the pictures by each companion, or read what is kept; then `parts` has their features."""
    if climb.companions is None:
        climb.companions = [_part(climb, settings) for settings in chosen(climb)]


def _part(climb: Climb, settings: Features) -> Part:
    climb.say(f"features by another network, too: {settings.encoder}")
    with listening(climb) as stop, runlog.progress(climb.console) as screen:
        prepared = data.prepare_features(settings, (), climb.say)
        pace = Pace(screen.counting, stop)
        roles = {role: encoding.eval_view(prepared, role, pace) for role in RoleFeatures._fields}
    roles["unlabeled"] = roles["unlabeled"][climb.features.used]
    return Part(encoder_of(prepared.encode), RoleFeatures(**roles))


def parts(climb: Climb) -> list[Part]:
    """The fit's own pretrained network and its companions, with the features of all pictures that are used."""
    some = climb.features
    own = RoleFeatures(some.labeled, some.val, some.test, some.unlabeled)
    return [Part(encoder_of(some.prepared.encode), own), *(climb.companions or [])]


def of_pictures(part: Part, rows: Rows, test: bool) -> Part:
    """The same with these rows of the unlabelled pictures that are used, and without the test pictures or with them."""
    seen = part.seen._replace(unlabeled=part.seen.unlabeled[rows])
    return part._replace(seen=seen if test else seen._replace(test=seen.test[:0]))
