"""The moving part of the TwoMoon page: a panel for each method, and a slider over the steps of the training.

Without a script, the panels show the end of the training. The page's script (`page/moons.js`) reads the other frames
from the data beside the panels and moves the outlines.
"""

import json
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from metapl.data.sources.dataset import Dataset
from metapl.report import moons_regions
from metapl.report.blocks import Animation
from metapl.report.moons_film import ShownFrames
from metapl.report.moons_regions import PROBABILITIES, WIDTH, Corners
from metapl.system.escape import markup

EVERY = 6  # every sixth point is drawn: all of them would hide the regions
SMALL, LARGE = 4, 13  # units from the middle of a mark to its tip
EVEN = PROBABILITIES.index(0.5)  # on this outline both classes are equally probable

Paths = Sequence[Sequence[Sequence[Sequence[str]]]]  # [methods][frames][data sets][probabilities]


def moving(
    titles: Sequence[str], shown: ShownFrames, seeds: Sequence[int], datasets: Sequence[Dataset], success: float
) -> Animation:
    """All panels with their controls and data; `success` is the accuracy from which on a training is a success."""
    tall = moons_regions.height(shown.box)
    paths = _outlines(shown, tall)
    marks = [_marks(dataset, shown) for dataset in datasets]
    names = datasets[0].class_names
    film = {
        "steps": shown.steps,
        "success": 100 * success,
        "seeds": list(seeds),
        "marks": marks,
        "methods": [
            {"accuracies": np.round(100 * right, 2).tolist(), "paths": frames}
            for right, frames in zip(shown.accuracies, paths, strict=True)
        ],
    }
    panels = "".join(
        _panel(title, f"data set {seeds[0]}", 100 * right[-1, 0], frames[-1][0], success, shown.steps[-1], tall)
        for title, right, frames in zip(titles, shown.accuracies, paths, strict=True)
    )
    data = json.dumps(film, separators=(",", ":"), allow_nan=False)
    html = (
        f'<div class="moons">{_stock(marks[0])}{_controls(shown.steps, seeds)}{_legend(names)}'
        f'<div class="panels">{panels}</div><script type="application/json" class="film">{data}</script></div>'
    )
    return Animation("Decision regions during the training", _description(seeds), html)


def _description(seeds: Sequence[int]) -> str:
    return f"The decision regions of each method, step by step, on the data sets {', '.join(map(str, seeds))}."


def _outlines(shown: ShownFrames, tall: int) -> Paths:
    methods, frames, sets = shown.margins.shape[:3]
    flat = iter(moons_regions.outlines(shown.margins.reshape(-1, *shown.margins.shape[3:]), tall))
    return [[[next(flat) for _ in range(sets)] for _ in range(frames)] for _ in range(methods)]


def _marks(dataset: Dataset, shown: ShownFrames) -> list[str]:
    """Outlines of the points of each class, then of the labelled points of each class."""
    outlines = []
    for points, labels, reach in (
        (np.asarray(dataset.test)[::EVERY], dataset.test_labels[::EVERY], SMALL),
        (np.asarray(dataset.labeled), dataset.labels, LARGE),
    ):
        places = moons_regions.place(points.astype(np.float32), shown.box)
        outlines += [_circles(places[labels == 0], reach), _diamonds(places[labels == 1], reach)]
    return outlines


def _circles(places: Corners, reach: int) -> str:
    half = f"a{reach} {reach} 0 1 1"
    return "".join(f"M{x - reach} {y}{half} {2 * reach} 0{half}-{2 * reach} 0z" for x, y in places.tolist())


def _diamonds(places: Corners, reach: int) -> str:
    """Diamonds, a little larger than the circles to their tips, so that both look equally large."""
    tip = reach + 1 + reach // 8
    steps = f"l{tip} {tip}-{tip} {tip}-{tip}-{tip}z"
    return "".join(f"M{x} {y - tip}{steps}" for x, y in places.tolist())


def _stock(marks: Sequence[str]) -> str:
    """The points, once, for all panels to use."""
    kinds = ("moon0", "moon1", "moon0 labelled", "moon1 labelled")
    paths = "".join(f'<path class="{kind}" d="{path}"/>' for kind, path in zip(kinds, marks, strict=True))
    return f'<svg class="stock" aria-hidden="true"><defs><g id="marks">{paths}</g></defs></svg>'


def _panel(title: str, which: str, percent: float, paths: Sequence[str], success: float, step: int, tall: int) -> str:
    shades = "".join(f'<path class="shade{i}" d="{path}"/>' for i, path in enumerate(paths, 1))
    label = f"{title}, {which}, at step {step:,}: {percent:.2f} % of the points right"
    reached = "reached" if percent >= 100 * success else ""
    return (
        f'<figure data-title="{markup(title)}"><figcaption>{markup(title)}</figcaption>'
        f'<svg viewBox="0 0 {WIDTH} {tall}" role="img" aria-label="{markup(label)}">'
        f'<rect class="shade0" width="{WIDTH}" height="{tall}"/>{shades}<path class="even" d="{paths[EVEN]}"/>'
        f'<use href="#marks"/></svg><p class="accuracy {reached}">{percent:.2f} %</p></figure>'
    )


def _controls(steps: Sequence[int], seeds: Sequence[int]) -> str:
    """The slider and the buttons, hidden until the script shows them."""
    last = len(steps) - 1
    options = "".join(f'<option value="{number}">{seed}</option>' for number, seed in enumerate(seeds))
    return (
        '<div class="player" role="group" aria-label="What the panels show" hidden>'
        '<button type="button" class="play">Play</button>'
        f'<input type="range" class="slider" min="0" max="{last}" value="{last}" step="1" autocomplete="off" '
        f'aria-label="Training step" aria-valuetext="step {steps[-1]:,} of {steps[-1]:,}">'
        f'<span class="now">step {steps[-1]:,} of {steps[-1]:,}</span>'
        f'<label>data set <select class="which" autocomplete="off">{options}</select></label></div>'
        f'<noscript><p class="note">The slider needs JavaScript. The panels show the end of the training, on data set '
        f"{seeds[0]}.</p></noscript>"
    )


def _legend(names: Sequence[str]) -> str:
    kinds = (("moon0", _circles, names[0]), ("moon1", _diamonds, names[1]))
    items = [
        f'<li><svg viewBox="0 0 26 26" aria-hidden="true"><path class="{kind}" '
        f'd="{draw(np.array([[13, 13]]), 10)}"/></svg> {markup(name)}; large: labelled</li>'
        for kind, draw, name in kinds
    ]
    shades = "".join(
        f'<rect class="shade{i}" x="{left}" width="{right - left}" height="26"/>'
        for i, (left, right) in enumerate(pairwise(range(0, 91, 15)))
    )
    edges = ", ".join(f"{100 * share:g}" for share in PROBABILITIES)
    meaning = f"probability of the {names[1]}, with edges at {edges} %; the line is at 50 %"
    scale = f'<svg class="scale" viewBox="0 0 90 26" aria-hidden="true">{shades}<path class="even" d="M45 0v26"/></svg>'
    items.append(f"<li>{scale} {markup(meaning)}</li>")
    return f'<ul class="legend">{"".join(items)}</ul>'
