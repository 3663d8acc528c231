"""`metapl demo`: the TwoMoon comparison of Section 3.1, over many data sets at once."""

import csv
import dataclasses
import io
import json
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from metapl import data
from metapl.config import Config, load
from metapl.data.sources.dataset import Dataset
from metapl.evaluate import held_out, statistics
from metapl.guards.say import guarding
from metapl.report import moons_film, moons_page, moons_panels, two_moons
from metapl.runs import runlog
from metapl.system import runtime
from metapl.system.disk import explaining_disk_errors, write_atomically
from metapl.train.loop import Hooks, Trained, Watch, train
from metapl.train.program import prepare
from metapl.types import Metrics

SUCCESS = 0.99  # share of the 2,000 points that a run must get right to count as a success

# name -> (title, the methods that it is compared with on the same data sets); the preset is two_moons_<name>
METHODS: dict[str, tuple[str, tuple[str, ...]]] = {
    "supervised": ("Supervised", ()),
    "pseudo_labels": ("Pseudo Labels", ("supervised",)),
    "mpl_none": ("MPL, no feedback", ()),
    "mpl": ("MPL", ("supervised", "pseudo_labels", "mpl_none")),
    "uda": ("UDA", ("supervised",)),
    "mpl_uda_none": ("MPL+UDA, no feedback", ()),
    "mpl_uda": ("MPL+UDA", ("uda", "mpl_uda_none")),
    "uda_sharp": ("UDA too sharp", ("uda",)),
    "mpl_uda_sharp_none": ("MPL+UDA too sharp, no feedback", ()),
    "mpl_uda_sharp": ("MPL+UDA too sharp", ("uda_sharp", "mpl_uda_sharp_none")),
}
FAMILIES = {
    "No augmentation": ("supervised", "pseudo_labels", "mpl_none", "mpl"),
    "UDA": ("uda", "mpl_uda_none", "mpl_uda"),
    "UDA too sharp": ("uda_sharp", "mpl_uda_sharp_none", "mpl_uda_sharp"),
}
SHOWN = 4  # data sets, the first ones, whose regions the page shows
GRID = 40  # points in each direction at which a network predicts, for its regions


@dataclass(frozen=True)
class Demo:
    """What the comparison trains on."""

    datasets: Annotated[int, Ge(1)] = 100
    """How many random data sets every method is trained on."""
    seed: Annotated[int, Ge(0)] = 1000
    """Seed of the first data set; the others follow. The settings were chosen on seeds below 1000."""
    steps: Annotated[int, Ge(0)] = 0
    """Training steps of every stage; 0: as in the presets."""

    def check(self) -> None:
        """Check that the last seed has 32 bits."""
        if self.seed + self.datasets > 2**32:
            raise ValueError(f"the last data set's seed would be {self.seed + self.datasets - 1}, above {2**32 - 1}")


@dataclass(frozen=True)
class Outcome:
    """One method on all data sets."""

    config: Config
    trained: Trained
    datasets: Sequence[Dataset]  # the first ones
    accuracies: NDArray[np.float64]
    seconds: float
    frames: moons_film.Frames
    course: moons_film.Course


def compare(demo: Demo, out: Path, console: Console, begun: "Training | None" = None) -> None:
    """Train every method on every data set, print the tables, write the files into the folder `out`.

    `begun` is a training that was started before, beside other work.
    """
    outcomes = (begun or Training(demo)).finish(console)
    summary = summarize(outcomes)
    console.print(results_table(summary), differences_table(summary))
    with explaining_disk_errors(out, then="start again; the tables above are complete"):
        write_atomically(out / "summary.json", (json.dumps(summary, indent=2, allow_nan=False) + "\n").encode())
        write_atomically(out / "accuracies.csv", _accuracies(outcomes, demo).encode())
        write_atomically(out / "two_moons.png", _picture(outcomes))
        write_atomically(out / "two_moons.html", _page(demo, outcomes, summary).encode())


def _picture(outcomes: dict[str, Outcome]) -> bytes:
    panels = [
        two_moons.Panel(METHODS[name][0], outcome.accuracies[0], outcome.trained, outcome.datasets[0])
        for name, outcome in outcomes.items()
    ]
    return two_moons.draw(panels)


def _page(demo: Demo, outcomes: dict[str, Outcome], summary: dict[str, Any]) -> str:
    """Return the page: how the regions of the first data sets change, and the summary of all data sets."""
    first = next(iter(outcomes.values()))
    shown = moons_film.show(first.trained, [outcome.frames for outcome in outcomes.values()], first.datasets, GRID)
    titles, seeds = [METHODS[name][0] for name in outcomes], range(demo.seed, demo.seed + len(first.datasets))
    panels = moons_panels.moving(titles, shown, seeds, first.datasets, SUCCESS)
    courses = {name: outcome.course for name, outcome in outcomes.items()}
    return moons_page.page(summary, courses, FAMILIES, panels, SUCCESS)


class Training:
    """All methods in training, as many at once as there are cores: steps this small use only one core.

    `beside` starts it without a display while other work has one core; `finish` shows it and uses all cores.
    """

    def __init__(self, demo: Demo) -> None:
        self._demo, self._cores = demo, runtime.cores()
        self._pool, self._stop = ThreadPoolExecutor(self._cores), threading.Event()
        self._places = threading.Semaphore(0)  # methods that may train at once
        self._screen: runlog.Screen | None = None
        self._futures: dict[str, Future[Outcome]] = {}

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Train while the block does something else, and leave it a core; an error in the block ends the training."""
        self._begin(self._cores - 1)
        try:
            yield
        except BaseException:
            self._end()
            raise

    def finish(self, console: Console) -> dict[str, Outcome]:
        """Show the training until all methods are done, and return what came out."""
        with runlog.progress(console) as self._screen:
            try:
                self._begin(self._cores)
                for future in wait(self._futures.values(), return_when=FIRST_EXCEPTION).done:
                    future.result()
                return {name: self._futures[name].result() for name in METHODS}
            finally:  # also after Ctrl-C: the threads must stop
                self._end()

    def _begin(self, at_once: int) -> None:
        """Let so many methods train at once, the longest ones first, so that none of these is left for the end."""
        free = at_once - (self._cores - 1 if self._futures else 0)
        if not self._futures:
            self._futures = {name: self._pool.submit(self._train, name) for name in reversed(METHODS)}
        if free:
            self._places.release(free)

    def _end(self) -> None:
        self._stop.set()
        self._places.release(self._cores)  # waiting threads go on, and see that they must stop
        self._pool.shutdown(cancel_futures=True)

    def _train(self, name: str) -> Outcome:
        with self._places:
            demo, seeds = self._demo, list(range(self._demo.seed, self._demo.seed + self._demo.datasets))
            config = moons_film.pausing(_config(name, demo))
            datasets = data.load(config.data, seeds, ())
            program = prepare(config, datasets)
            camera = moons_film.Camera(config, program)
            start = time.monotonic()
            hooks = Hooks(self._watch(name, config, seeds, datasets[0]), between=camera.between)
            trained = train(config, seeds, datasets, hooks, program)
            accuracies = held_out.accuracies(trained, config.augmentation, datasets)
            seconds = time.monotonic() - start
            course = moons_film.course(trained, camera.frames, config.augmentation, datasets)
            return Outcome(config, trained, datasets[:SHOWN], accuracies, seconds, camera.frames, course)

    def _watch(self, name: str, config: Config, seeds: list[int], dataset: Dataset) -> Watch:
        guards = guarding(runlog.keeper(config, seeds, dataset), tell=lambda _: None)  # a method that diverges ends it
        guard, shown = runlog.reports(config, [guards]), list[Watch]()

        def watch(stage: int, done: int, metrics: Metrics) -> None:
            if self._stop.is_set():
                raise InterruptedError
            guard(stage, done, metrics)
            if self._screen and not shown:
                shown.append(self._screen.watch(METHODS[name][0], config))
            for show in shown:
                show(stage, done, metrics)

        return watch


def _config(name: str, demo: Demo) -> Config:
    config = load(f"two_moons_{name}")
    if not demo.steps:
        return config
    stages = tuple(dataclasses.replace(stage, steps=demo.steps) for stage in config.stages)
    return dataclasses.replace(config, stages=stages)


def summarize(outcomes: dict[str, Outcome]) -> dict[str, Any]:
    """Return for each method: success rate, accuracy, and the paired differences from its controls."""
    return {
        name: {
            "title": METHODS[name][0],
            "success_rate": float(np.mean(outcome.accuracies >= SUCCESS)),
            "mean_accuracy": statistics.mean_and_std(outcome.accuracies)[0],
            "std_accuracy": statistics.mean_and_std(outcome.accuracies)[1],
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
    """Return the table of success rates and accuracies."""
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
    """Return the table of differences from the controls, on the same data sets and seeds."""
    table = Table("method", "against", title="Paired differences of accuracy, with 95 % intervals")
    for column in ("points (interval)", "better/worse"):
        table.add_column(column, justify="right")
    for entry in summary.values():
        for other, pair in entry["paired"].items():
            row = (summary[other]["title"], _points(pair), f"{pair['better']}/{pair['worse']}")
            table.add_row(entry["title"], *row)
    return table


def _points(pair: dict[str, Any]) -> str:
    interval = "" if pair["low"] is None else f" ({100 * pair['low']:+.1f} … {100 * pair['high']:+.1f})"
    return f"{100 * pair['mean']:+.1f}{interval}"


def _accuracies(outcomes: dict[str, Outcome], demo: Demo) -> str:
    """Return a CSV with one row for each data set, for statistics of your own."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(["seed", *outcomes])
    columns = [outcome.accuracies.tolist() for outcome in outcomes.values()]
    writer.writerows(zip(range(demo.seed, demo.seed + demo.datasets), *columns, strict=True))
    return text.getvalue()
