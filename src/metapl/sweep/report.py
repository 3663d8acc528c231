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
from metapl.sweep.settings import SweepSettings
from metapl.sweep.store import MethodStudy

MIN_TRIALS = 10  # importances of fewer are noise


def finished(study: MethodStudy) -> list[FrozenTrial]:
    """The finished trials of a method, in the order of their slots."""
    return [trial for trial in store.owners(study).values() if trial.state in store.DONE]


def summarize(study: MethodStudy) -> dict[str, Any]:
    """One method's trials in numbers, for JSON; accuracies are validation accuracies."""
    trials = finished(study)
    values = np.array([trial.value for trial in trials if trial.value is not None])
    low, median, high = np.quantile(values, [0.25, 0.5, 0.75]).tolist() if len(values) else [None] * 3
    best = best_of(study)
    return {
        "method": study.method.name,
        "trials": len(trials),
        "asked_for": study.trials,
        "failed": sum("failure" in trial.user_attrs for trial in trials),
        "pruned": sum(trial.state == TrialState.PRUNED for trial in trials),
        "best": best.value if best else None,
        "best_trial": best.user_attrs["slot"] if best else None,
        "median": median,
        "quartiles": [low, high],
        "seconds": round(sum(trial.user_attrs.get("seconds", 0.0) for trial in trials), 1),
    }


def best_of(study: MethodStudy) -> FrozenTrial | None:
    """The complete trial with the highest validation accuracy; of equal ones, the earliest."""
    good = [t for t in finished(study) if t.state == TrialState.COMPLETE and "failure" not in t.user_attrs]
    return max(good, key=lambda trial: trial.value if trial.value is not None else -1.0, default=None)


def table(summaries: Sequence[dict[str, Any]], validation: int) -> Table:
    """A table for the terminal: one row for each method."""
    shown = Table(title=f"validation accuracy (%) on {validation:,} examples")
    shown.add_column("method", overflow="fold")
    for column in ("trials", "best", "median", "quartiles", "failed", "pruned"):
        shown.add_column(column, justify="right")
    for summary in summaries:
        quartiles = " … ".join(map(_percent, summary["quartiles"]))
        done, wanted = summary["trials"], summary["asked_for"]
        trials = f"{done} of {wanted}" if done < wanted else str(done)
        cells = (trials, _percent(summary["best"]), _percent(summary["median"]), quartiles)
        shown.add_row(summary["method"], *cells, str(summary["failed"]), str(summary["pruned"]))
    return shown


def remarks(summaries: Sequence[dict[str, Any]], validation: int) -> list[str]:
    """Sentences below the table, against wrong conclusions from it."""
    sentences = []
    best = max((summary["best"] for summary in summaries if summary["best"] is not None), default=None)
    if best is not None:
        error = 100 * math.sqrt(max(best * (1 - best), 0.0) / validation)
        sentences.append(f"the standard error of an accuracy near the best is {error:.1f} points on so few examples")
    if failed := sum(summary["failed"] for summary in summaries):
        trials = "trial" if failed == 1 else "trials"
        sentences.append(f"{failed} {trials} diverged or had invalid settings: counted, with an accuracy of 0")
    if any(summary["trials"] < summary["asked_for"] for summary in summaries):
        sentences.append("some trials are still missing; run the same command again to continue")
    sentences.append(
        "the best of many trials is partly luck, and the sweep read no test data: train best-METHOD.toml with new "
        "seeds to measure it"
    )
    return sentences


def write(studies: Sequence[MethodStudy], settings: SweepSettings, out: Path) -> dict[str, Any]:
    """Write trials.csv, sweep.json, best-METHOD.toml and importance.svg; return what is in sweep.json."""
    importances = {study.method.name: importance(study) for study in studies}
    summary = {
        "budget": dataclasses.asdict(settings.budget),
        "methods": [summarize(study) | {"importance": importances[study.method.name]} for study in studies],
    }
    (out / "sweep.json").write_text(json.dumps(summary, indent=2) + "\n", "utf-8")
    write_trials(studies, out / "trials.csv")
    for study in studies:
        if best := best_of(study):
            (out / f"best-{study.method.name}.toml").write_text(best_settings(study, best), "utf-8")
    known = {name: values for name, values in importances.items() if values}
    if known:
        draw(known, out / "importance.svg")
    return summary


def best_settings(study: MethodStudy, best: FrozenTrial) -> str:
    """A settings file for `metapl train`: the best trial's settings, with the method's own number of steps."""
    config = spaces.apply(study.method.config, values_of(study, best), study.method.space)
    header = [
        f"# {study.method.name}: the best of {len(finished(study))} trials, number {best.user_attrs['slot']}.",
        "#",
        f"# Chosen by its validation accuracy, {_percent(best.value)} %. To measure it with new seeds:",
        f"# metapl train best-{study.method.name}.toml --seed 1000 --seeds 10",
    ]
    return "\n".join([*header, "", configs.dump(config)])


def values_of(study: MethodStudy, trial: FrozenTrial) -> dict[str, Any]:
    """The values that a trial tried, as settings."""
    choices = {name for name, parameter in study.method.space.items() if parameter.type == "choice"}
    return {name: json.loads(value) if name in choices else value for name, value in trial.params.items()}


def write_trials(studies: Sequence[MethodStudy], path: Path) -> None:
    """Write one row for each trial, also for trials that were given up, so that anyone can draw their own plots."""
    names = list(dict.fromkeys(name for study in studies for name in study.method.space))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["method", "trial", "slot", "state", "validation_accuracy", "seconds", "failure", *names])
        for study in studies:
            owned = {trial.number for trial in store.owners(study).values()}
            for trial in study.optuna.get_trials(deepcopy=False):
                if trial.state == TrialState.WAITING and trial.number not in owned:
                    continue  # a second one for the same slot, made by another worker; it is never taken
                attrs = trial.user_attrs
                outcome = [trial.state.name.lower(), trial.value, attrs.get("seconds"), attrs.get("failure")]
                values = [trial.params.get(name) for name in names]
                writer.writerow([study.method.name, trial.number, attrs["slot"], *outcome, *values])


def importance(study: MethodStudy) -> dict[str, float]:
    """How much each setting explains of the difference between good and other trials; {} if that is not known."""
    values = {trial.value for trial in finished(study) if trial.state == TrialState.COMPLETE}
    if len(finished(study)) < MIN_TRIALS or len(values) < 2:
        return {}
    with store.no_experimental_warnings():
        return dict(optuna.importance.get_param_importances(study.optuna))


def draw(importances: dict[str, dict[str, float]], path: Path) -> None:
    """Draw the importances as bars, one panel for each method."""
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
