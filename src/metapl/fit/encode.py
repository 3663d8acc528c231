"""Encode a fit's pictures, as many as its budget allows: the labelled ones first, which give the first model soon."""

import dataclasses
import time
from collections.abc import Callable

import numpy as np

from metapl import data
from metapl.data.audit.wording import counted
from metapl.data.sources.features import Features
from metapl.features import load
from metapl.features.frozen import BATCH
from metapl.features.load import Prepared
from metapl.fit import encoded as encoding
from metapl.fit import foreign_pictures, head_runs
from metapl.fit.climb import FOR_THE_VERDICT_S, Climb, listening
from metapl.fit.listing import GOES_ON
from metapl.fit.plan import SHARE_FOR_ENCODING, VIEWS, affordable
from metapl.runs import runlog
from metapl.system.signals import Stop

LEAST_UNLABELED = 300  # pictures; heads are not tried on fewer, unless there are no more


def encode_labeled(climb: Climb) -> None:
    """Encode labelled and held-out pictures, which gives the first model soon, and measure how long a view takes."""
    settings = climb.plan.features(climb.out, climb.request, climb.facts["side"])
    with listening(climb) as stop, runlog.progress(climb.console) as screen:
        prepared = data.prepare_features(settings, (), climb.say)
        pace = Pace(screen.counting, stop, prepared.config.views)
        climb.encoded = encoding.read(prepared, pace)
        if climb.plan.get("view_s") is None:
            climb.plan.decide("view_s", pace.view_s or measured_view_s(prepared))


def measured_view_s(prepared: Prepared) -> float:
    """How long a view takes; measured here if the features of the labelled pictures were there already."""
    some = np.asarray(prepared.examples["labeled"][:BATCH], np.uint8)
    prepared.encode(some)  # compiles
    began = time.monotonic()
    prepared.encode(some)
    return (time.monotonic() - began) / BATCH


class Pace:
    """Shows how far encoding is, stops it on request, and notes how long a view takes."""

    def __init__(self, counting: Callable[[str, int], Callable[[int], None]], stop: Stop, pairs: int) -> None:
        self._counting, self._stop, self._pairs = counting, stop, pairs
        self.view_s = 0.0  # the shortest time so far; 0 if nothing was encoded

    def __call__(self, title: str, total: int) -> Callable[[int], None]:
        """Begin to count a role's pictures."""
        # Pictures as they are may have been encoded in another set of pictures: only views tell how long it takes.
        views = 1 + 2 * self._pairs if self._pairs and title.endswith("labeled") else 0
        before: list[tuple[int, float]] = []
        shown: list[Callable[[int], None]] = []

        def count(rows: int) -> None:
            now = time.monotonic()
            if views and before and rows > before[-1][0]:
                seconds = (now - before[-1][1]) / ((rows - before[-1][0]) * views)
                self.view_s = min(self.view_s or seconds, seconds)
            before.append((rows, now))
            if rows < total and not shown:  # nothing is shown of a file that is complete
                shown.append(self._counting(title, total))
            if shown:
                shown[0](rows)
            self._stop.check(f"{title}, {rows:,} of {total:,}", GOES_ON)

        return count


def encode_unlabeled(climb: Climb) -> None:
    """Encode as many unlabelled pictures as their share of the budget allows."""
    count = climb.facts["unlabeled"]
    if (limit := climb.plan.get("unlabeled")) is None:
        view_s = climb.plan.get("view_s") or 0.0
        possible = affordable(count, view_s, SHARE_FOR_ENCODING * climb.clock.budget_s, views=1)
        limit = climb.plan.decide("unlabeled", min(count, max(LEAST_UNLABELED, possible)))
    if limit < count:
        climb.say(f"the budget allows to encode {limit:,} of the {count:,} unlabelled pictures")
    settings = dataclasses.replace(climb.features.settings, unlabeled=limit if limit < count else 0)
    with listening(climb) as stop, runlog.progress(climb.console) as screen:
        prepared = data.prepare_features(settings, (), climb.say)
        climb.encoded = encoding.with_unlabeled(climb.features, prepared, Pace(screen.counting, stop, 0))


def leave_out_foreign(climb: Climb) -> None:
    """Leave out unlabelled pictures that clearly show something else; a session that continues leaves out the same."""
    if not climb.request.filter_foreign:
        return
    some = climb.features
    if not (climb.out / foreign_pictures.ROWS).is_file():
        rows = load.chosen_rows(climb.facts["unlabeled"], some.settings.unlabeled)
        foreign_pictures.write(climb.out, foreign_pictures.find(some.labeled, some.unlabeled, rows))
    found = foreign_pictures.read(climb.out)
    climb.encoded = encoding.without(some, np.array(found.places, np.int64))
    climb.only_foreign = not len(climb.features.unlabeled)
    if found.rows:
        climb.say(
            f"{counted(len(found.rows), 'unlabelled picture')} left out, because hardly any labelled one is near "
            f"({foreign_pictures.TABLE} lists them; --no-filter-foreign keeps them)"
        )


def encode_views(climb: Climb) -> bool:
    """Encode the views of unlabelled pictures that heads learn from; False if there is too little time for that."""
    if (limit := climb.plan.get("views_of")) is None:
        left_s = min(SHARE_FOR_ENCODING * climb.clock.budget_s, (climb.clock.left_s - FOR_THE_VERDICT_S) / 3)
        view_s, total = climb.plan.get("view_s") or 0.0, climb.facts["unlabeled"]
        limit = affordable(total, view_s, left_s, views=1 + 2 * VIEWS)
        if limit < min(LEAST_UNLABELED, total):
            for name in head_runs.METHODS:
                climb.left_out.setdefault(name, "there was too little time to encode views of unlabelled pictures")
            return False
        climb.plan.decide("views_of", limit)
    with listening(climb) as stop, runlog.progress(climb.console) as screen:
        prepared = data.prepare_features(head_features(climb), (), climb.say)
        pace = Pace(screen.counting, stop, prepared.config.views)
        load.stored(prepared, "unlabeled", pace("encoding views of unlabeled", len(prepared.examples["unlabeled"])))
    return True


def head_features(climb: Climb) -> Features:
    """The features that heads are trained on."""
    limit, left_out = climb.plan.get("views_of"), climb.out / foreign_pictures.ROWS
    return dataclasses.replace(
        climb.features.settings,
        unlabeled=limit if limit < climb.facts["unlabeled"] else 0,
        folds=climb.features.folds,
        without=str(left_out.absolute()) if foreign_pictures.read(climb.out).rows else "",
    )
