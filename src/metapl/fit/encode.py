"""Encode a fit's pictures, as many as its budget allows: the labelled ones first, which give the first model soon."""

import dataclasses
import time
from collections.abc import Callable

import numpy as np

from metapl import data
from metapl.data.reading.decode import DataError
from metapl.data.sources.features import Features
from metapl.features import load
from metapl.features.frozen import BATCH
from metapl.features.load import Prepared
from metapl.fit import encoded as encoding
from metapl.fit import head_runs, leave_out_foreign
from metapl.fit.climb import Climb, listening
from metapl.fit.encoder import SHARE_FOR_ENCODING, Pictures
from metapl.fit.listing import GOES_ON
from metapl.fit.plan import VIEWS, affordable
from metapl.models import packages
from metapl.runs import runlog
from metapl.schema import ConfigError
from metapl.system.signals import Stop

CHANGED = "the pictures have changed since this fit began, so begin a new one: choose another --out"
LEAST_UNLABELED = 300  # pictures; heads are not tried on fewer, unless there are no more
READ, ENCODED = 9, 3  # pictures that are read, and batches that are encoded, to measure the time


def encode_labeled(climb: Climb) -> None:
    """Encode labelled and held-out pictures as they are, which gives the first model soon; measure a view's time."""
    facts = climb.facts
    first = sum(facts["labeled_counts"]) + facts["val"] + facts["test"]
    settings = climb.plan.features(climb.out, climb.request, Pictures(first, facts["unlabeled"], facts["side"]))
    if settings.encoder in packages.NAMES:
        climb.say(f"features: {settings.encoder}, pictures scaled to {settings.encoder_size} pixels")
    with listening(climb) as stop, runlog.progress(climb.console) as screen:
        prepared = prepared_unchanged(climb, settings)
        climb.encoded = encoding.read(prepared, Pace(screen.counting, stop))
        if climb.plan.get("view_s") is None:
            read_s, view_s = measured(prepared)
            climb.plan.decide("read_s", read_s)
            climb.plan.decide("view_s", view_s)


def prepared_unchanged(climb: Climb, settings: Features) -> Prepared:
    """Find the pictures; refuse those that have changed since the fit began: its rungs learnt the old ones."""
    begun = climb.plan.get("content")
    try:
        prepared = data.prepare_features(settings, (), climb.say)
    except DataError as error:
        if begun is None:
            raise
        raise ConfigError(f"{error}; {CHANGED}") from None
    if climb.plan.decide("content", prepared.content) != prepared.content:
        raise ConfigError(f"a picture is not what it was; {CHANGED}")
    return prepared


def measured(prepared: Prepared) -> tuple[float, float]:
    """How long it takes to read a picture, and to encode a view: medians."""
    labeled, times = prepared.examples["labeled"], [time.monotonic()]
    for row in range(min(READ, len(labeled))):
        some = np.asarray(labeled[row : row + 1], np.uint8).repeat(BATCH, 0)
        times.append(time.monotonic())
    read_s, times = float(np.median(np.diff(times))), times[-1:]
    for _ in range(1 + ENCODED):  # the first one compiles
        prepared.encode(some)
        times.append(time.monotonic())
    return read_s, float(np.median(np.diff(times)[1:])) / BATCH


def picture_s(climb: Climb, views: float) -> float:
    """How long it takes to read a picture and to encode so many views of it."""
    return float((climb.plan.get("read_s") or 0.0) + views * (climb.plan.get("view_s") or 0.0))


class Pace:
    """Shows how far encoding is, and stops it on request."""

    def __init__(self, counting: Callable[[str, int], Callable[[int], None]], stop: Stop) -> None:
        self._counting, self._stop = counting, stop

    def __call__(self, title: str, total: int) -> Callable[[int], None]:
        """Begin to count a role's pictures."""
        shown: list[Callable[[int], None]] = []

        def count(rows: int) -> None:
            if rows < total and not shown:  # nothing is shown of a file that is complete
                shown.append(self._counting(title, total))
            if shown:
                shown[0](rows)
            self._stop.check(f"{title}, {rows:,} of {total:,}", GOES_ON)

        return count


def encode_unlabeled(climb: Climb) -> None:
    """Encode as many unlabelled pictures as their share of the budget allows; measure how long one really takes."""
    count, share = climb.facts["unlabeled"], 0.0  # what share of them is encoded now, for all that is known
    if (limit := climb.plan.get("unlabeled")) is None:
        share = load.new_share(climb.features.prepared, "unlabeled")
        possible = affordable(count, picture_s(climb, share), SHARE_FOR_ENCODING * climb.clock.budget_s)
        if load.is_stored(climb.features.prepared, "unlabeled", only_eval_view=True):
            possible, share = count, 0.0
        limit = climb.plan.decide("unlabeled", min(count, max(LEAST_UNLABELED, possible)))
    if limit < count:
        climb.say(f"the budget is enough to encode {limit:,} of the {count:,} unlabelled pictures")
    began = time.monotonic()
    with listening(climb) as stop, runlog.progress(climb.console) as screen:
        prepared = with_limit(climb)
        pace, most_judged = Pace(screen.counting, stop), climb.plan.get("judged") or encoding.MOST_JUDGED
        climb.encoded = encoding.with_unlabeled(climb.features, prepared, pace, most_judged)
    if share * limit >= LEAST_UNLABELED:
        climb.plan.decide("encoded_s", (time.monotonic() - began) / (share * limit))


def unlabeled_are_encoded(climb: Climb) -> bool:
    """Whether an earlier session has encoded the unlabelled pictures: reading their features takes seconds."""
    if not climb.has_unlabeled or climb.plan.get("unlabeled") is None:
        return False
    return load.is_stored(with_limit(climb), "unlabeled", only_eval_view=True)


def with_limit(climb: Climb) -> Prepared:
    """What is encoded if no more unlabelled pictures are used than was decided."""
    limit, prepared = climb.plan.get("unlabeled"), climb.features.prepared
    settings = dataclasses.replace(prepared.config, unlabeled=limit if limit < climb.facts["unlabeled"] else 0)
    if settings == prepared.config:  # all is as it was: nothing is read and compiled again
        return prepared
    return data.prepare_features(settings, (), climb.say)


def encode_views(climb: Climb) -> bool:
    """Encode the views that heads learn from; False if there is too little time for that."""
    if climb.plan.get("views_of") is None and not plan_views(climb):
        for name in head_runs.METHODS:
            climb.left_out.setdefault(name, "there was too little time to encode views of the pictures")
        return False
    with listening(climb) as stop, runlog.progress(climb.console) as screen:
        prepared = data.prepare_features(head_features(climb, climb.plan.get("views_of")), (), climb.say)
        pace = Pace(screen.counting, stop)
        for role in load.TRAINING:
            load.stored(prepared, role, pace(f"encoding views of {role}", len(prepared.examples[role])))
    return True


def plan_views(climb: Climb) -> bool:
    """Note of how many unlabelled pictures views are encoded; False if the time allows too few."""
    limit = total = climb.facts["unlabeled"]
    prepared = climb.features.prepared._replace(config=head_features(climb, total))
    if not load.is_stored(prepared, "unlabeled"):  # by another fit on these pictures
        left_s = min(SHARE_FOR_ENCODING * climb.clock.budget_s, climb.left_s / 3)
        each_s = picture_s(climb, 1 + 2 * VIEWS)
        if not load.is_stored(prepared, "labeled"):
            left_s -= each_s * len(climb.features.labels)
        limit = affordable(total, each_s, max(left_s, 0.0))
        if limit < min(LEAST_UNLABELED, total):
            return False
    climb.plan.decide("views_of", limit)
    return True


def head_features(climb: Climb, limit: int) -> Features:
    """The features that heads are trained on: of so many unlabelled pictures, less the foreign ones."""
    left_out = climb.out / leave_out_foreign.ROWS
    return dataclasses.replace(
        climb.features.settings,
        unlabeled=limit if limit < climb.facts["unlabeled"] else 0,
        folds=climb.features.folds,
        without=str(left_out.absolute()) if leave_out_foreign.read(climb.out).rows else "",
    )
