"""Which of a run's evaluations count: three rules, none of which chooses by the test labels.

`final`                the weights at the end, good or bad: the paper's rule (Section 3.2).
`median_last_20`       the median of the last 20 evaluations, for each score separately.
`validation_selected`  the evaluation with the best validation accuracy, the earliest of equals.

All three look at the last stage only: its network is the result of the run, and an earlier stage may train another
network. The best score on the test data is not reported: it would be chosen by the data that it is measured on.
"""

import csv
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

from metapl.evaluate.measures import Scores
from metapl.evaluate.statistics import mean_and_std

LAST = 20

_TITLES = {
    "accuracy": "accuracy (%)",
    "top5_accuracy": "top-5 (%)",
    "real_accuracy": "ReaL (%)",
    "nll": "NLL",
    "calibration_error": "calibration error (%)",
}


class Evaluation(NamedTuple):
    """Scores of one seed's network after `step` steps of a stage."""

    seed: int
    stage: int
    step: int
    test: Scores
    val: Scores | None


Rule = Callable[[Sequence[Evaluation]], Scores]  # from one seed's evaluations in the last stage, in order


def final(history: Sequence[Evaluation]) -> Scores:
    """Scores of the last evaluation."""
    return history[-1].test


def median_last_20(history: Sequence[Evaluation]) -> Scores:
    """Medians over the last 20 evaluations, or over all if there are fewer."""
    columns = zip(*(evaluation.test for evaluation in history[-LAST:]), strict=True)
    return Scores(*(None if None in column else float(np.median(column)) for column in columns))  # type: ignore[arg-type]


def selected(history: Sequence[Evaluation]) -> Evaluation:
    """The evaluation with the best validation accuracy."""
    return max(history, key=lambda e: (-1.0 if e.val is None else e.val.accuracy, -e.step))


def summarize(history: Sequence[Evaluation]) -> dict[str, Any]:
    """Scores by each rule: mean and standard deviation over the seeds, and each seed's own; ready for JSON."""
    last_stage = max(evaluation.stage for evaluation in history)
    runs: dict[int, list[Evaluation]] = {}
    for evaluation in history:
        if evaluation.stage == last_stage:
            runs.setdefault(evaluation.seed, []).append(evaluation)
    evaluations = len(next(iter(runs.values())))
    summary: dict[str, Any] = {
        "evaluations": evaluations,
        "final": _over_seeds(runs, final),
        "median_last_20": {"evaluations": min(evaluations, LAST)} | _over_seeds(runs, median_last_20),
        "validation_selected": None,
    }
    if history[0].val is not None:
        chosen = {seed: selected(run) for seed, run in runs.items()}
        summary["validation_selected"] = {
            "steps": {str(seed): evaluation.step for seed, evaluation in chosen.items()},
            "validation_accuracy": spread({seed: e.val.accuracy for seed, e in chosen.items() if e.val}),
        } | _over_seeds(runs, lambda run: selected(run).test)
    return summary


def spread(values: Mapping[int, float]) -> dict[str, Any]:
    """Mean, standard deviation (n − 1) and each seed's own value; None for NaN and infinity, which JSON lacks."""
    mean, std = mean_and_std(np.array(list(values.values())))
    of_seeds = {str(seed): _finite(value) for seed, value in values.items()}
    return {"mean": _finite(mean), "std": _finite(std), "seeds": of_seeds}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _over_seeds(runs: Mapping[int, Sequence[Evaluation]], rule: Rule) -> dict[str, Any]:
    scores = {seed: rule(run) for seed, run in runs.items()}
    columns = {name: {seed: getattr(score, name) for seed, score in scores.items()} for name in Scores._fields}
    return {name: spread(column) for name, column in columns.items() if None not in column.values()}


def table(summary: Mapping[str, Any], part: str = "test") -> Table:
    """A table of the scores by each rule, for a terminal."""
    seeds = len(summary["final"]["accuracy"]["seeds"])
    shown = [name for name in _TITLES if name in summary["final"]]
    result = Table(f"{part} scores", title=f"mean ± std over {seeds} seeds" if seeds > 1 else None)
    for name in shown:
        result.add_column(_TITLES[name], justify="right")
    count = summary["median_last_20"]["evaluations"]
    rows = {
        "final": "final weights",
        "median_last_20": f"median of the last {count} evaluations",
        "validation_selected": f"best of {summary['evaluations']} on validation",
    }
    for rule, title in rows.items():
        if rule == "final" or (summary["evaluations"] > 1 and summary[rule]):
            result.add_row(title, *(_cell(name, summary[rule][name], seeds) for name in shown))
    return result


def percent(entry: Mapping[str, Any]) -> str:
    """Format a share: "93.21 ± 0.31 % (10 seeds)"."""
    seeds = len(entry["seeds"])
    return f"{100 * entry['mean']:.2f}" + (f" ± {100 * entry['std']:.2f} % ({seeds} seeds)" if seeds > 1 else " %")


def write_evaluations(path: Path, history: Sequence[Evaluation]) -> None:
    """Write one row for each evaluation."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        val = [f"val_{name}" for name in Scores._fields]
        writer.writerow(["seed", "stage", "step", *(f"test_{name}" for name in Scores._fields), *val])
        for e in history:
            writer.writerow([e.seed, e.stage, e.step, *e.test, *(e.val or [None] * len(val))])


def _cell(name: str, entry: Mapping[str, Any], seeds: int) -> str:
    if entry["mean"] is None:
        return "not a number"
    scale, digits = (1, 4) if name == "nll" else (100, 2)
    mean = f"{scale * entry['mean']:.{digits}f}"
    return f"{mean} ± {scale * entry['std']:.{digits}f}" if seeds > 1 else mean
