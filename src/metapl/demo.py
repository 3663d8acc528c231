"""`metapl demo`: the TwoMoon comparison of Section 3.1, over many data sets at once."""

import csv
import dataclasses
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from metapl import evaluate, runlog, statistics
from metapl.config import Config, load
from metapl.report import two_moons
from metapl.train import Trained, train

SUCCESS = 0.99  # share of the 2,000 points that a run must get right to count as a success

# name -> (title, the methods that it is compared with on the same data sets); the preset is two_moons_<name>
METHODS: dict[str, tuple[str, tuple[str, ...]]] = {
    "supervised": ("Supervised", ()),
    "pseudo_labels": ("Pseudo Labels", ("supervised",)),
    "mpl_none": ("MPL, feedback none", ("supervised",)),
    "mpl": ("MPL", ("supervised", "pseudo_labels", "mpl_none")),
    "uda": ("UDA", ("supervised",)),
    "mpl_uda_none": ("MPL+UDA, feedback none", ("uda",)),
    "mpl_uda": ("MPL+UDA", ("uda", "mpl_uda_none")),
}


@dataclass(frozen=True)
class Demo:
    """What the comparison runs on."""

    datasets: Annotated[int, Ge(1)] = 100
    """How many random data sets every method is trained on."""
    seed: Annotated[int, Ge(0)] = 1000
    """The first data set's seed; the others follow. Below 1000 lie those that the settings were chosen on."""
    steps: Annotated[int, Ge(0)] = 0
    """Training steps of every stage; 0 leaves the presets' own."""


@dataclass(frozen=True)
class Outcome:
    """One method on all data sets."""

    config: Config
    trained: Trained
    accuracies: NDArray[np.float64]
    seconds: float


def run(demo: Demo, out: Path, console: Console) -> None:
    """Train every method on every data set, print the table, write the files into the empty folder `out`."""
    outcomes = {name: _compare_one(name, demo, console) for name in METHODS}
    summary = summarize(outcomes)
    console.print(results_table(summary), differences_table(summary))
    (out / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    _write_accuracies(out / "accuracies.csv", outcomes, demo)
    panels = {METHODS[name][0]: (outcome.trained, outcome.accuracies[0]) for name, outcome in outcomes.items()}
    two_moons.draw(panels, out / "two_moons.png")


def _compare_one(name: str, demo: Demo, console: Console) -> Outcome:
    config = load(f"two_moons_{name}")
    if demo.steps:
        stages = tuple(dataclasses.replace(stage, steps=demo.steps) for stage in config.stages)
        config = dataclasses.replace(config, stages=stages)
    start = time.monotonic()
    with runlog.progress(console, METHODS[name][0], config) as watch:
        trained = train(config, range(demo.seed, demo.seed + demo.datasets), watch)
        accuracies = evaluate.accuracies(trained)
    return Outcome(config, trained, accuracies, time.monotonic() - start)


def summarize(outcomes: dict[str, Outcome]) -> dict[str, Any]:
    """Per method: how often it succeeds, how good it is, and how it differs from its controls, data set by data set."""
    return {
        name: {
            "title": METHODS[name][0],
            "success_rate": float(np.mean(outcome.accuracies >= SUCCESS)),
            "mean_accuracy": float(np.mean(outcome.accuracies)),
            "std_accuracy": float(np.std(outcome.accuracies, ddof=1)) if len(outcome.accuracies) > 1 else 0.0,
            "datasets": len(outcome.accuracies),
            "steps": sum(stage.steps for stage in outcome.config.stages),
            "seconds": round(outcome.seconds, 2),
            "paired": {
                other: statistics.paired(outcome.accuracies, outcomes[other].accuracies)._asdict()
                for other in METHODS[name][1]
            },
        }
        for name, outcome in outcomes.items()
    }


def results_table(summary: dict[str, Any]) -> Table:
    """How good each method is."""
    datasets = next(iter(summary.values()))["datasets"]
    table = Table("method", title=f"TwoMoon, {datasets} data sets, six labels each")
    for column in (f"success (≥ {SUCCESS:.0%})", "mean accuracy", "steps", "seconds"):
        table.add_column(column, justify="right")
    for entry in summary.values():
        accuracy = f"{entry['mean_accuracy']:.1%} ± {entry['std_accuracy']:.1%}"
        cells = (f"{entry['success_rate']:.0%}", accuracy, f"{entry['steps']:,}", f"{entry['seconds']:.1f}")
        table.add_row(entry["title"], *cells)
    return table


def differences_table(summary: dict[str, Any]) -> Table:
    """How each method differs from its controls, on the same data sets and seeds."""
    table = Table("method", "against", title="Paired differences of accuracy, with 95 % intervals")
    for column in ("mean [interval], points", "better/worse on"):
        table.add_column(column, justify="right")
    for entry in summary.values():
        for other, pair in entry["paired"].items():
            mean, low, high = (f"{100 * pair[key]:+.1f}" for key in ("mean", "low", "high"))
            row = (summary[other]["title"], f"{mean} [{low}, {high}]", f"{pair['better']}/{pair['worse']}")
            table.add_row(entry["title"], *row)
    return table


def _write_accuracies(path: Path, outcomes: dict[str, Outcome], demo: Demo) -> None:
    """One row for each data set, so that anyone can do their own statistics."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["seed", *outcomes])
        columns = [outcome.accuracies.tolist() for outcome in outcomes.values()]
        writer.writerows(zip(range(demo.seed, demo.seed + demo.datasets), *columns, strict=True))
