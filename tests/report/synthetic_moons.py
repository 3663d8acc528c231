"""A TwoMoon page whose regions are known, without any training: a line that turns from frame to frame."""

import json
import re

import numpy as np

from metapl.data.sources.two_moons import TwoMoons, load
from metapl.evaluate.statistics import paired
from metapl.report import moons_film, moons_page, moons_panels, moons_regions

from .synthetic_runs import NASTY

STEPS = [1, 50, 1000, 8000]
SEEDS = [1000, 1001]
TITLES = {"one": "Supervised", "two": NASTY, "three": "MPL+UDA too sharp, no feedback"}
GRID = 24


def datasets():
    return [load(TwoMoons(standardize=True), seed) for seed in SEEDS]


def margins(box, method: int, frame: int, which: int):
    """Margins of a line through the middle, whose slope depends on method, frame and data set."""
    x, y = moons_regions.lattice(box, GRID).T
    angle = 0.31 * method + 0.43 * frame + 0.71 * which
    return (3 * (x * np.cos(angle) + y * np.sin(angle))).reshape(GRID, GRID)


def shown():
    box = moons_film.surroundings(datasets())
    each = [[[margins(box, m, f, d) for d in range(2)] for f in range(len(STEPS))] for m in range(len(TITLES))]
    accuracies = 0.5 + 0.04 * np.arange(len(TITLES) * len(STEPS) * 2).reshape(len(TITLES), len(STEPS), 2) / 2
    accuracies[1, -1, 0], accuracies[2, -1, 0] = 0.99, 0.9895
    return moons_film.ShownFrames(STEPS, box, accuracies, np.array(each, np.float32))


def summary():
    draw = np.random.default_rng(0)
    right = {name: draw.uniform(low, 1, 20) for name, low in zip(TITLES, (0.5, 0.98, 0.9), strict=True)}
    return {
        name: {
            "title": TITLES[name],
            "success_rate": float(np.mean(right[name] >= 0.99)),
            "mean_accuracy": float(right[name].mean()),
            "std_accuracy": float(right[name].std()),
            "datasets": 20,
            "steps": 8000 + 8000 * (name == "three"),
            "seconds": 1.5,
            "paired": {"one": paired(right[name], right["one"])._asdict()} if name != "one" else {},
        }
        for name in TITLES
    }


def page() -> str:
    panels = moons_panels.moving(list(TITLES.values()), shown(), SEEDS, datasets(), 0.99)
    rising = np.linspace(0.5, 1, len(STEPS))[:, None] * np.ones(20)
    courses = {name: moons_film.Course(np.array(STEPS), rising) for name in TITLES}
    return moons_page.page(summary(), courses, {"All": list(TITLES)}, panels, 0.99)


def film(source: str):
    """What the page's script reads."""
    return json.loads(re.search(r'class="film">(.*?)</script>', source).group(1))
