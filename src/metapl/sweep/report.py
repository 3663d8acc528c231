"""What a sweep found: a table, one row for each trial, the best settings, and which settings mattered."""

import csv
import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from optuna.trial import FrozenTrial, TrialState
from rich.table import Table

from metapl import config as configs
from metapl.sweep import space as spaces
from metapl.sweep import store
from metapl.sweep.plan import Plan
from metapl.sweep.store import Row

MIN_TRIALS = 10  # importances of fewer are noise


def finished(row: Row) -> list[FrozenTrial]:
    """The trials that count, in the order of their slots."""
    return [trial for trial in store.owners(row).values() if trial.state in store.DONE]


def summarize(row: Row) -> dict[str, Any]:
    """One method's trials in numbers; validation accuracies, for JSON."""
    trials = finished(row)
    values = np.array([trial.value for trial in trials if trial.value is not None])
    low, median, high = np.quantile(values, [0.25, 0.5, 0.75]).tolist() if len(values) else [None] * 3
    best = best_of(row)
    return {
        "method": row.method.name,
        "trials": len(trials),
        "asked_for": row.trials,
        "failed": sum("failure" in trial.user_attrs for trial in trials),
        "pruned": sum(trial.state == TrialState.PRUNED for trial in trials),
        "best": best.value if best else None,
        "best_trial": best.user_attrs["slot"] if best else None,
        "median": median,
        "quartiles": [low, high],
        "seconds": round(sum(trial.user_attrs.get("seconds", 0.0) for trial in trials), 1),
    }


def best_of(row: Row) -> FrozenTrial | None:
    """The highest validation accuracy of a trial that came to its end, the earliest of equals."""
    good = [t for t in finished(row) if t.state == TrialState.COMPLETE and "failure" not in t.user_attrs]
    return max(good, key=lambda trial: trial.value if trial.value is not None else -1.0, default=None)


def table(summaries: Sequence[dict[str, Any]], validation: int) -> Table:
    """The methods side by side."""
    found = Table(title=f"validation accuracy (%) on {validation:,} examples")
    found.add_column("method", overflow="fold")
    for column in ("trials", "best", "median", "quartiles", "failed", "pruned"):
        found.add_column(column, justify="right")
    for one in summaries:
        quartiles = " … ".join(map(_percent, one["quartiles"]))
        trials = f"{one['trials']} of {one['asked_for']}" if one["trials"] < one["asked_for"] else str(one["trials"])
        cells = (trials, _percent(one["best"]), _percent(one["median"]), quartiles)
        found.add_row(one["method"], *cells, str(one["failed"]), str(one["pruned"]))
    return found


def remarks(summaries: Sequence[dict[str, Any]], validation: int) -> list[str]:
    """What the table alone would let a reader believe wrongly."""
    said = []
    best = max((one["best"] for one in summaries if one["best"] is not None), default=None)
    if best is not None:
        error = 100 * math.sqrt(max(best * (1 - best), 0.0) / validation)
        said.append(f"the standard error of an accuracy near the best is {error:.1f} points on so few examples")
    if failed := sum(one["failed"] for one in summaries):
        trials = "trial" if failed == 1 else "trials"
        said.append(f"{failed} {trials} diverged or had settings that cannot be: counted, with an accuracy of 0")
    if any(one["trials"] < one["asked_for"] for one in summaries):
        said.append("not all trials are there yet; the same command goes on")
    said.append(
        "the best of many is lucky, and no test data were looked at: train best-METHOD.toml with new seeds to know"
    )
    return said


def write(rows: Sequence[Row], plan: Plan, out: Path) -> dict[str, Any]:
    """Write trials.csv, sweep.json, best-METHOD.toml and importance.svg; tell what is in sweep.json."""
    importances = {row.method.name: importance(row) for row in rows}
    summary = {
        "budget": dataclasses.asdict(plan.budget),
        "methods": [summarize(row) | {"importance": importances[row.method.name]} for row in rows],
    }
    (out / "sweep.json").write_text(json.dumps(summary, indent=2) + "\n", "utf-8")
    write_trials(rows, out / "trials.csv")
    for row in rows:
        if best := best_of(row):
            (out / f"best-{row.method.name}.toml").write_text(best_settings(row, best), "utf-8")
    known = {name: values for name, values in importances.items() if values}
    if known:
        draw(known, out / "importance.svg")
    return summary


def best_settings(row: Row, best: FrozenTrial) -> str:
    """A file for `metapl train`: the method's own number of steps with the best trial's settings."""
    config = spaces.apply(row.method.config, values_of(row, best), row.method.space)
    header = [
        f"# {row.method.name}: the best of {len(finished(row))} trials, number {best.user_attrs['slot']}.",
        "#",
        f"# Validation accuracy {_percent(best.value)} %, by which it was chosen. To know what it is worth:",
        f"# metapl train best-{row.method.name}.toml --seed 1000 --seeds 10",
    ]
    return "\n".join([*header, "", configs.dump(config)])


def values_of(row: Row, trial: FrozenTrial) -> dict[str, Any]:
    """What a trial tried, as settings have it."""
    choices = {name for name, parameter in row.method.space.items() if parameter.type == "choice"}
    return {name: json.loads(value) if name in choices else value for name, value in trial.params.items()}


def write_trials(rows: Sequence[Row], path: Path) -> None:
    """One row for each trial, the ones given up included, so that anyone can draw their own plots."""
    names = list(dict.fromkeys(name for row in rows for name in row.method.space))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["method", "trial", "slot", "state", "validation_accuracy", "seconds", "failure", *names])
        for row in rows:
            owned = {trial.number for trial in store.owners(row).values()}
            for trial in row.study.get_trials(deepcopy=False):
                if trial.state == TrialState.WAITING and trial.number not in owned:
                    continue  # several workers made one for the same slot; it is never taken
                attrs = trial.user_attrs
                told = [trial.state.name.lower(), trial.value, attrs.get("seconds"), attrs.get("failure")]
                values = [trial.params.get(name) for name in names]
                writer.writerow([row.method.name, trial.number, attrs["slot"], *told, *values])


def importance(row: Row) -> dict[str, float]:
    """How much of the difference between good and other trials each setting explains; {} where that is not known."""
    values = {trial.value for trial in finished(row) if trial.state == TrialState.COMPLETE}
    if len(finished(row)) < MIN_TRIALS or len(values) < 2:
        return {}
    with store.no_experimental_warnings():
        return dict(optuna.importance.get_param_importances(row.study))


def draw(importances: dict[str, dict[str, float]], path: Path) -> None:
    """Bars, one panel for each method."""
    heights = [len(values) for values in importances.values()]
    figure = Figure(figsize=(8, 1 + 0.35 * sum(heights) + 0.6 * len(heights)), layout="constrained")
    panels = figure.subplots(len(importances), 1, squeeze=False, height_ratios=heights)[:, 0]
    for panel, (name, values) in zip(panels, importances.items(), strict=True):
        ordered = sorted(values.items(), key=lambda item: item[1])
        panel.barh([setting for setting, _ in ordered], [share for _, share in ordered], color="#4c72b0")
        panel.set_title(name, fontsize=10, loc="left")
        panel.set_xlim(0, 1)
        panel.tick_params(labelsize=8)
    panels[-1].set_xlabel("importance for the validation accuracy (PED-ANOVA)", fontsize=9)
    FigureCanvasSVG(figure).print_svg(path)


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.2f}"
