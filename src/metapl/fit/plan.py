"""What a fit decides by the clock, noted before it is done: a session that continues decides the same.

plan.json holds the settings of the features, how many unlabelled pictures are encoded, C of the logistic regressions,
and what the rungs chose.
"""

import dataclasses
from pathlib import Path
from typing import Any

from metapl.data.sources.features import Features
from metapl.fit import encoder as encoders
from metapl.fit.duration import seconds
from metapl.fit.encoder import Pictures
from metapl.fit.folder import PLAN, read_json, write_json
from metapl.fit.listing import ARRAYS, LIST
from metapl.fit.request import Request
from metapl.models import packages
from metapl.schema import from_dict, to_dict
from metapl.start_from.find import absolute
from metapl.start_from.recognise import recognise

ENCODERS = ("resnet", "efficientnet", "efficientnet_lite", "vit", "convnext")  # networks whose features are used
VIEWS = 3  # stored pairs of a weak and a strong view of each picture
LARGEST_FOR_PATCHES, LARGEST_FOR_NETWORKS = 64, 160  # sides in pixels that pictures are cut and scaled to,
MARGIN = 1.25  # and for a network that sees larger ones, this many times their side

LEAST_FOR_TWO_SCALES = 24  # pixels; half of fewer is too small for patches of their own
# Better than the source's defaults on development draws (docs/features.md), and three times the work.
PATCHES: dict[str, Any] = {"centroids": 800, "code": "near", "grid": 3, "overlap": True}


class Plan:
    """The decisions so far; each is written as soon as it is made."""

    def __init__(self, out: Path) -> None:
        self._path = out / PLAN
        self._values: dict[str, Any] = read_json(self._path) if self._path.is_file() else {}

    def get(self, name: str) -> Any:
        """A decision, or None if it has not been made."""
        return self._values.get(name)

    def decide(self, name: str, value: Any) -> Any:
        """Note a decision and return it; one that was made before stays."""
        if name not in self._values:
            self._values[name] = value
            write_json(self._path, self._values)
        return self._values[name]

    def features(self, out: Path, request: Request, pictures: Pictures) -> Features:
        """The settings of the features."""
        chosen = self.get("features") or self.decide("features", to_dict(features(out, request, pictures)))
        return from_dict(Features, {key: value for key, value in chosen.items() if key != "name"}, {})


def features(out: Path, request: Request, pictures: Pictures) -> Features:
    """The features that suit these pictures."""
    encoder = encoder_of(request, pictures)
    name = LIST if (out / LIST).is_file() else ARRAYS
    size = picture_size(request, pictures.side, encoder)
    return dataclasses.replace(
        encoder,
        source=str((out / name).absolute()),
        outside=True,
        size=size,
        scales=(1, 2) if size >= LEAST_FOR_TWO_SCALES else (1,),
        views=VIEWS,
        mirrored=request.mirror,
        shift_pixels=max(1, size // 8),
    )


def picture_size(request: Request, side: int, encoder: Features) -> int:
    """The side in pixels that pictures are cut and scaled to."""
    return request.size or min(side, largest(encoder))


def largest(encoder: Features) -> int:
    """The largest side in pixels that pictures are cut and scaled to."""
    if encoder.encoder == "patches":
        return LARGEST_FOR_PATCHES
    return max(LARGEST_FOR_NETWORKS, int(MARGIN * encoder.encoder_size))


def encoder_of(request: Request, pictures: Pictures) -> Features:
    """Settings that name the encoder: what --init-from names if it is made for pictures, else what --features says."""
    name = request.init_from
    if name and name not in packages.NAMES and recognise(name).model.name in ENCODERS:
        return Features(encoder="network", init_from=absolute(name), encoder_size=0)
    asked = name if name in packages.NAMES else request.features
    before = encoders.of_fit(Path(request.after)) if request.after and asked == "auto" else None
    some = [] if asked == "patches" else encoders.candidates("" if asked == "auto" else asked)
    if not some:
        return Features(encoder="patches", **PATCHES)
    best = Features(encoder=some[0].network, encoder_size=some[0].size)  # type: ignore[arg-type]
    sized = pictures._replace(side=picture_size(request, pictures.side, best))
    network, size = before or encoders.choose(some, sized, seconds(request.budget))
    return Features(encoder=network, encoder_size=size)  # type: ignore[arg-type]


def affordable(count: int, picture_s: float, seconds: float) -> int:
    """How many of `count` pictures can be encoded in this time."""
    return min(count, int(seconds / max(picture_s, 1e-9)))
