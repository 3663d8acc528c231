"""The training curves of one run."""

from collections.abc import Sequence

import numpy as np

from metapl import metrics
from metapl.metrics import MASKS, Chart
from metapl.report.blocks import Plain, Text
from metapl.report.metrics import Curves
from metapl.report.svg import Line, line_chart, thin

FEW = 12  # up to so many points are drawn as dots


def names() -> list[str]:
    """Return the metrics that the charts show."""
    return [name for chart in metrics.charts() for name in chart.names]


def charts(curves: Curves, stage_steps: Sequence[int], columns: int) -> list[Plain]:
    """Draw the run's metrics, with a note on how to read the charts."""
    if not curves.numbers:
        return [Text("There are no curves: metrics.jsonl has no reports.", "warning")]
    last = max(max(points.steps) for points in curves.numbers.values())
    ends = (0.0, max(last, 1.0))
    marks = [float(sum(stage_steps[:i])) for i in range(1, len(stage_steps))]
    blocks: list[Plain] = [Text(_about(curves), "note")]
    if curves.damaged:
        blocks.append(Text(f"{curves.damaged:,} lines of metrics.jsonl cannot be read and are left out.", "warning"))
    for chart in metrics.charts():
        lines = _lines(chart, curves, ends, columns)
        if lines:
            y = (0.0, 100.0) if chart.title == MASKS else None
            description = " ".join(_described(line, chart) for line in lines) + _not_finite(chart, curves)
            blocks.append(line_chart(chart.title, description, lines, ("steps", chart.unit), ends, y, marks))
    return blocks


def _lines(chart: Chart, curves: Curves, ends: tuple[float, float], columns: int) -> list[Line]:
    lines = []
    for name, title in chart.names.items():
        if name in curves.numbers:
            steps, values = curves.numbers[name].arrays()
            line = thin(title, steps, values * (100 if chart.percent else 1), ends, columns)
            lines.append(line._replace(dots=len(line.x) <= FEW))
    return lines


def _about(curves: Curves) -> str:
    if not curves.reports:
        return "metrics.jsonl has no reports: the curves show only the evaluations, from evaluations.csv."
    seeds = f"{len(curves.seeds)} seeds" if len(curves.seeds) > 1 else "one seed"
    which = f"The curves show {_all(curves.reports)} of metrics.jsonl ({seeds})"
    if not curves.whole:
        which = (
            f"The curves show {curves.reports:,} reports at equal distances, of about {curves.of_reports:,} in "
            f"metrics.jsonl ({seeds}); they do not show what happened only between these"
        )
    return (
        f"{which}. A report is the mean since the report before. A line is the mean of all values at one place of the "
        "axis; its band goes from the smallest to the largest value there, over seeds and reports. Dotted vertical "
        "lines: a stage ends."
    )


def _all(reports: int) -> str:
    return f"all {reports:,} reports" if reports > 1 else "the only report"


def _described(line: Line, chart: Chart) -> str:
    known = np.flatnonzero(np.isfinite(line.middle))
    if not len(known):
        return f"{line.name}: never finite."
    first, last, unit = line.middle[known[0]], line.middle[known[-1]], " %" if chart.percent else ""
    if len(known) == 1:
        return f"{line.name}: {last:.3g}{unit}."
    return f"{line.name}: from {first:.3g} to {last:.3g}{unit}."


def _not_finite(chart: Chart, curves: Curves) -> str:
    lost = sum(int((~np.isfinite(curves.numbers[name].values)).sum()) for name in chart.names if name in curves.numbers)
    return f" {lost:,} values were not finite; they are gaps." if lost else ""
