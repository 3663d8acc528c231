"""Which pretrained encoder a fit uses: the best one whose features are there in time.

A larger network that sees larger pictures gives far better features (docs/features.md), and takes up to three times as
long. So a fit measures how long the best candidate takes for a picture on this machine, at this moment, with the
program that then encodes the pictures if it is chosen:

    s(candidate) = s(best) · work(candidate) / work(best)              work = FACTORS[network] · (size / 128)²

and takes the first candidate with which

    s · [labelled and held-out pictures]              ≤ FIRST_S, and SHARE_FOR_FIRST of the budget
    s · [unlabelled pictures, at most ENOUGH]         ≤ the share of the budget that is for encoding them

Better features of fewer unlabelled pictures are worth more than worse features of all. If the best candidate seems too
slow, but not by HOPELESS times, it measures again some seconds later, and the shortest time counts: a moment of load at
the start would otherwise decide the whole fit.

| symbol | name      |
|--------|-----------|
| s      | picture_s |
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.features import lite
from metapl.features.frozen import BATCH
from metapl.fit.folder import PLAN, read_json
from metapl.models import packages

FACTORS = {"efficientnet_lite0": 1.0, "efficientnet_lite1": 1.2, "efficientnet_lite2": 1.3}
LARGE, SMALL = 192, 128  # sides in pixels
FIRST_S, SHARE_FOR_FIRST = 60.0, 0.15  # seconds and share of the budget for labelled and held-out pictures
SHARE_FOR_ENCODING = 0.25  # of the budget, for the unlabelled pictures as they are, and as much for their views
LEAST_TO_MEASURE_S = 100.0  # with a smaller budget, measuring alone would take too much of it
ENOUGH = 2000  # unlabelled pictures
MEASURED = 2  # batches
TRIES, PAUSE_S = 3, 3.0  # of measuring, while the best candidate seems too slow
HOPELESS = 3.0

Pixels = NDArray[np.uint8]


class Candidate(NamedTuple):
    """A network, and the shorter side of the pictures that it sees."""

    network: str
    size: int

    @property
    def work(self) -> float:
        """How long it takes for a picture, compared with EfficientNet-Lite0 at 128 pixels."""
        return work(self.network, self.size)


class Pictures(NamedTuple):
    """How many pictures there are to encode."""

    first: int  # labelled and held-out: before the first model
    unlabeled: int
    side: int  # pixels: the median of their shorter sides, or what they are cut and scaled to


def work(network: str, size: int) -> float:
    """How long a network takes for a picture, compared with EfficientNet-Lite0 at 128 pixels; 0: of unknown size."""
    return FACTORS.get(network, 1.0) * ((size or SMALL) / SMALL) ** 2


def candidates(network: str = "") -> list[Candidate]:
    """Those that can be used, the best one first: of this network, or of all that are installed."""
    if network:
        return [Candidate(network, LARGE), Candidate(network, SMALL)]
    best = [name for name in ("efficientnet_lite2", "efficientnet_lite0") if packages.installed(name)]
    return [*(Candidate(name, LARGE) for name in best), Candidate(best[-1], SMALL)] if best else []


def choose(some: list[Candidate], pictures: Pictures, budget_s: float) -> Candidate:
    """Return the best candidate that the budget allows; the last one if none is fast enough."""
    best, fastest = some[0], some[-1]
    if budget_s < LEAST_TO_MEASURE_S:
        return fastest
    allowed_s = longest_s(pictures, budget_s)
    unit_s = picture_s(best, pictures.side, allowed_s) / best.work
    return next((one for one in some if one.work * unit_s <= allowed_s), fastest)


def longest_s(pictures: Pictures, budget_s: float) -> float:
    """How long encoding a picture may take, so that enough pictures are encoded in the time that is meant for it."""
    first = min(FIRST_S, SHARE_FOR_FIRST * budget_s) / max(pictures.first, 1)
    return min(first, SHARE_FOR_ENCODING * budget_s / max(min(pictures.unlabeled, ENOUGH), 1))


def picture_s(candidate: Candidate, side: int, allowed_s: float) -> float:
    """How long this machine takes to encode a picture of this side; measured again if it is longer than allowed."""
    encode = lite.load(candidate.network, candidate.size)
    grey = np.full((BATCH, side, side, 3), 127, np.uint8)
    encode(grey)  # compiles
    fastest_s = measured_s(encode, grey)
    for _ in range(TRIES - 1):
        if not allowed_s < fastest_s < HOPELESS * allowed_s:
            break
        time.sleep(PAUSE_S)
        fastest_s = min(fastest_s, measured_s(encode, grey))
    return fastest_s


def measured_s(encode: Callable[[Pixels], object], pictures: Pixels) -> float:
    """How long a picture takes now."""
    times = [time.monotonic()]
    for _ in range(MEASURED):
        encode(pictures)
        times.append(time.monotonic())
    return float(np.median(np.diff(times))) / len(pictures)


def of_fit(folder: Path) -> Candidate | None:
    """The one that another fit used, whose models are to be compared with the new ones; None if it used none."""
    chosen = read_json(folder / PLAN).get("features", {}) if (folder / PLAN).is_file() else {}
    if chosen.get("encoder") not in FACTORS or not packages.installed(chosen["encoder"]):
        return None
    return Candidate(chosen["encoder"], int(chosen.get("encoder_size", SMALL)))
