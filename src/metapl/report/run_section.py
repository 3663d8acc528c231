"""The section of one run, in any state."""

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np

from metapl.evaluate.statistics import mean_and_std
from metapl.report import classes, curves, metrics
from metapl.report.blocks import Cell, Plain, Section, Table, Text
from metapl.report.method import Origin, title
from metapl.report.read import ReportedRun, is_number, table

RULES = {
    "final": "final weights (the paper's rule)",
    "median_last_20": "median of the last 20 evaluations",
    "validation_selected": "best on validation data",
}
SCORES = {
    "accuracy": ("accuracy (%)", 100, 2),
    "top5_accuracy": ("top-5 (%)", 100, 2),
    "real_accuracy": ("ReaL (%)", 100, 2),
    "nll": ("NLL", 1, 4),
    "calibration_error": ("calibration error (%)", 100, 2),
}
MOST_CHANGES = 12


def section(
    loaded: ReportedRun, origin: Origin, pictures: Sequence[Plain], read: metrics.Read, columns: int, opened: bool
) -> Section:
    """The run's settings, state, scores, curves, classes and pictures."""
    blocks: list[Plain] = [Text(_summary(loaded, origin))]
    blocks += _state(loaded)
    if origin.paper:
        blocks.append(Text(f"The paper's number for the preset {origin.preset}: {origin.paper}."))
    if scores := _scores(loaded):
        blocks.append(scores)
    numbers = read(loaded.run.path, loaded.stage_steps, curves.names())
    blocks += curves.charts(numbers, loaded.stage_steps, columns)
    blocks += classes.classes(loaded)
    blocks += pictures
    return Section(f"{loaded.name}: {title(loaded)}, {loaded.run.state}", loaded.anchor, blocks, opened)


def _summary(loaded: ReportedRun, origin: Origin) -> str:
    run, environment = loaded.run, loaded.environment
    words = [f"{title(loaded)} on {run.data or 'unknown data'}"]
    if loaded.labels is not None:
        words.append(f"{loaded.labels:,} labels")
    if loaded.stages:
        names = ", then ".join(
            f"{table(stage.get('method')).get('name', '?')} ({steps:,} steps)"
            for stage, steps in zip(loaded.stages, loaded.stage_steps, strict=True)
        )
        words.append(names)
    if origin.preset:
        words.append(f"preset {origin.preset}" + _changed(origin))
    if version := environment.get("metapl"):
        commit = environment.get("commit")
        words.append(f"metapl {version}" + (f" at {commit[:12]}" if isinstance(commit, str) else ""))
    if device := environment.get("device_kind"):
        words.append(f"{environment.get('devices', '?')} × {device}")
    seconds = loaded.result.get("seconds")
    if is_number(seconds):
        words.append(f"{seconds:,.0f} s")
    words.append(f"last written {datetime.fromtimestamp(run.changed, UTC):%Y-%m-%d %H:%M} UTC")
    return f"{'; '.join(words)}. Folder: {run.path}"


def _changed(origin: Origin) -> str:
    if not origin.changes:
        return ", unchanged"
    shown = "; ".join(origin.changes[:MOST_CHANGES])
    more = f"; and {len(origin.changes) - MOST_CHANGES} more" if len(origin.changes) > MOST_CHANGES else ""
    return f" with changes, so that the paper's number does not apply ({shown}{more})"


def _state(loaded: ReportedRun) -> list[Plain]:
    run, sentences = loaded.run, []
    if run.state == "running":
        working: list[Plain] = [Text("This run is not finished: a process is working on it.", "note")]
        return working + [Text(sentence, "warning") for sentence in _problems(loaded)]
    if run.state != "finished":
        steps = f" after {run.steps or 0:,} of {run.total_steps:,} steps" if run.total_steps else ""
        sentences.append(f"This run is not finished: {run.state}{steps}. {run.note}".strip())
    elif not loaded.finished:
        sentences.append("result.json has no finite accuracy: the run is left out of all comparisons.")
    return [Text(sentence, "warning") for sentence in [*sentences, *_problems(loaded)]]


def _problems(loaded: ReportedRun) -> list[str]:
    """Missing files and warnings of guards."""
    missing = ", ".join(loaded.missing)
    sentences = [f"Missing or damaged: {missing}. The report leaves out what these files hold."] if missing else []
    return sentences + [f"Guard: {warning}" for warning in loaded.warnings]


def _scores(loaded: ReportedRun) -> Table | None:
    shown = [name for name in SCORES if loaded.scores(name)]
    if not shown:
        return None
    rows = []
    for rule, title_of_rule in RULES.items():
        several = rule == "final" or loaded.result.get("evaluations") != 1  # with one evaluation, all rules are equal
        if several and loaded.scores("accuracy", rule):
            rows.append([Cell(title_of_rule), *(score_cell(name, loaded.scores(name, rule)) for name in shown)])
    seeds = len(loaded.scores("accuracy"))
    over = f"mean ± standard deviation over {seeds} seeds" if seeds > 1 else "one seed"
    return Table(f"Test scores, {over}", ("which weights", *(SCORES[name][0] for name in shown)), rows)


def score_cell(name: str, scores: dict[int, float]) -> Cell:
    """A table's cell with a score's mean and standard deviation over seeds."""
    if not scores:
        return Cell("–")
    _, scale, digits = SCORES[name]
    mean, std = mean_and_std(np.array(list(scores.values())))
    spread = f" ± {scale * std:.{digits}f}" if len(scores) > 1 else ""
    return Cell(f"{scale * mean:.{digits}f}{spread}", scale * mean)
