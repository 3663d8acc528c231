"""The last rungs: a network that is trained itself, on labels alone (`baseline`) and then with MPL (`network`).

A network takes minutes where heads take seconds, so it is not trained once for each fold. It is trained without the
first fold, whose pictures (and those of the val part) validate it.
"""

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from metapl import recipe
from metapl.config import Config
from metapl.data.loading.files_loader import in_turn
from metapl.data.sources.on_disk import OnDisk, usual_reading
from metapl.data.sources.source import Images, InMemory, Part, PictureConfig
from metapl.data.splits.assemble import to_array
from metapl.data.splits.select import join, take
from metapl.evaluate.predictor import Predictor
from metapl.fit import choose, listing, probe
from metapl.fit.choose import DataSummary, NetworkPlan
from metapl.fit.climb import Check
from metapl.fit.encoded import Encoded, Labels, Values
from metapl.fit.listing import Listing
from metapl.fit.plan import Plan
from metapl.fit.request import Request
from metapl.fit.rung import Logits, Predictions
from metapl.fit.train import train
from metapl.recipe import Choice
from metapl.schema import ConfigError
from metapl.start_from.find import absolute
from metapl.start_from.recognise import Pretrained, recognise

LIST = "network-list"  # the folder of the list without the first fold
BASELINE, NETWORK = "baseline", "network"


def write_list(
    out: Path,
    some: Encoded,
    name: str = LIST,
    all_labels: bool = False,
    given: Callable[[], Labels | None] = lambda: None,
    tested: int | None = None,
) -> Path:
    """Write the list in which the first fold is in the val part, unless `all_labels` are learnt; return its folder.

    The labels that `given` gives to the unlabelled pictures `some.learnt`, if it gives any, are learnt, too. At most
    `tested` pictures of the test part, evenly chosen, test the run itself; none: all.
    """
    folder, parts = out / name, some.prepared.pictures.roles
    if listing.settings(folder, 0) is None:
        folder.mkdir(exist_ok=True)
        labeled, val, held = parts["labeled"], parts["val"], held_out(some) & (not all_labels)
        of_fold, learnt = _rows(labeled, np.flatnonzero(held)), _rows(labeled, np.flatnonzero(~held))
        unlabeled = _rows(parts["unlabeled"], some.used)
        if (labels := given()) is not None:
            labelled_by_model = Part(take(unlabeled.images, some.learnt), labels)
            learnt, unlabeled = _joined(learnt, labelled_by_model), _rows(unlabeled, np.arange(0))
        roles = dict(parts) | {
            "labeled": learnt,
            "unlabeled": unlabeled,
            "val": _joined(of_fold, val) if len(val.images) else of_fold,
            "test": _rows(parts["test"], evenly(len(parts["test"].labels), tested)),
        }
        listing.write(Listing(roles, some.class_names, "test part", (), 0), folder)
    return folder


def _joined(left: Part, right: Part) -> Part:
    return Part(join([left.images, right.images]), np.concatenate([left.labels, right.labels]))


def evenly(count: int, most: int | None) -> NDArray[np.int64]:
    """At most so many of `count` rows, with equal distances."""
    return np.unique(np.linspace(0, count - 1, min(count, most or count)).astype(np.int64))


def held_out(some: Encoded) -> NDArray[np.bool_]:
    """Which labelled pictures a network is not trained on."""
    return some.fold == 0 if some.folds else np.zeros(len(some.labels), bool)


def _rows(part: Part, rows: NDArray[np.int64]) -> Part:
    return Part(take(part.images, rows), part.labels[rows])


def planned(out: Path, plan: Plan, some: Encoded, request: Request, side: int, left_s: float) -> NetworkPlan:
    """Choose network, size and steps for the time that is left, or read what an earlier session chose."""
    if (stored := plan.get("network")) is not None:
        choice = Choice(**stored["choice"] | {"prior": tuple(stored["choice"]["prior"])})
        return NetworkPlan(choice, tuple(stored["reasons"]))
    counts = np.bincount(some.labels[~held_out(some)], minlength=len(some.class_names))

    def baseline(choice: Choice) -> Config:
        return recipe.supervised(choice, base(out, request, choice), choice.steps)

    summary = DataSummary(side, counts, len(some.unlabeled))
    fixed = "given" if request.init_from else ""
    chosen = choose.plan(request, summary, probe.measuring(baseline, out), left_s, fixed)
    plan.decide("network", {"choice": dataclasses.asdict(chosen.choice), "reasons": list(chosen.reasons)})
    return chosen


def base(out: Path, request: Request, choice: Choice) -> Config:
    """The settings that both runs share."""
    source = listing.settings(out / LIST, choice.size)
    assert source is not None
    if request.init_from:
        found = recognised(request.init_from)
        views = recipe.augmentation(choice.size, request.mirror, found.mean, found.std)
        return recipe.base(source, found.model, request.seed, views, absolute(request.init_from))
    views = recipe.augmentation(choice.size, request.mirror)
    return recipe.base(source, recipe.model(choice.network, choice.size), request.seed, views)


def recognised(init_from: str) -> Pretrained:
    """The network that --init-from names."""
    try:
        return recognise(init_from)
    except ConfigError as error:
        raise ConfigError(f"--init-from: {error}") from None


def train_rung(out: Path, name: str, choice: Choice, request: Request, console: Console) -> None:
    """Train the baseline, or MPL from the baseline's weights."""
    shared = base(out, request, choice)
    if name == BASELINE:
        train(out / BASELINE, recipe.supervised(choice, shared, recipe.BASELINE * choice.steps), console)
    else:
        start = str((out / BASELINE / "weights.safetensors").absolute())
        train(out / NETWORK, recipe.mpl(choice, dataclasses.replace(shared, init_from=start)), console)


def predict(model: Predictor, some: Encoded) -> Predictions:
    """Let a trained network predict the pictures that judge it."""
    pictures, held = some.prepared.pictures, held_out(some)
    folds = np.full((len(held), len(some.class_names)), np.nan, np.float32)
    folds[held] = _logits(model, take(pictures.images("labeled"), np.flatnonzero(held)))
    return Predictions(
        some.validation(folds, _logits(model, pictures.images("val"))),
        _logits(model, pictures.images("test")),
        _logits(model, take(pictures.images("unlabeled"), some.judged_pictures)),
    )


def _logits(model: Predictor, images: Images) -> Logits:
    empty = np.zeros((0, len(model.class_names)), np.float32)
    batches = [model.probabilities(batch) for batch in _batches(model, images)]
    return np.log(np.maximum(np.concatenate([empty, *batches]), 1e-30))


def features(model: Predictor, images: Images, check: Check) -> Values:
    """What a network's classifier is given for these pictures: [N, D]; `check` may raise Stopped between batches."""
    made = [np.zeros((0, len(model.weights.params["scale"]["mean"])), np.float32)]
    for batch in _batches(model, images):
        check()
        made.append(model.features(batch))
    return np.concatenate(made)


def _batches(model: Predictor, images: Images) -> Iterator[NDArray[np.generic]]:
    """The pictures in the size that the network takes."""
    assert isinstance(model.config.data, PictureConfig)
    yield from batches(images, model.config.data.size, model.batch_size())


def batches(images: Images, size: int, at_once: int) -> Iterator[NDArray[np.generic]]:
    """Pictures in this size, so many at a time."""
    if len(images):
        examples = to_array(images, size) if isinstance(images, InMemory) else OnDisk(images, size, usual_reading())
        yield from in_turn(examples, at_once)
