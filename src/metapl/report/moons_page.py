"""The TwoMoon page: how each method's decision regions develop, and how often each method succeeds."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import metapl
from metapl.evaluate.statistics import Proportion, wilson
from metapl.report import html
from metapl.report.bars import Bar, Span, bars, spans
from metapl.report.blocks import Animation, Block, Cell, Figure, Heading, Table, Text
from metapl.report.moons_film import Course
from metapl.report.svg import Line, line_chart

Summary = Mapping[str, Mapping[str, Any]]  # as summary.json has it
Families = Mapping[str, Sequence[str]]  # methods that are drawn in one chart


def page(summary: Summary, courses: Mapping[str, Course], families: Families, panels: Animation, success: float) -> str:
    """The page as HTML; `success` is the accuracy from which on a training counts as a success."""
    sets = _datasets(summary)
    title = f"TwoMoon: {len(summary)} methods on {sets} data {'set' if sets == 1 else 'sets'}"
    return html.page(title, blocks(summary, courses, families, panels, success), more=["moons"])


def blocks(
    summary: Summary, courses: Mapping[str, Course], families: Families, panels: Animation, success: float
) -> list[Block]:
    """The content of the page."""
    sets = _datasets(summary)
    return [
        Text(
            "Two half circles of points in the plane, six of them labelled (Section 3.1 of the paper). Every method "
            f"trains the same small network on the same {sets} random data {'set' if sets == 1 else 'sets'}, with "
            f"the same seeds. A success means that {100 * success:g} % or more of all points are right."
        ),
        Text(f"Made by metapl {metapl.__version__}.", "note"),
        panels,
        Text(_whose_steps(summary), "note"),
        Heading("Over all data sets"),
        _results(summary),
        Text(
            "The intervals of success are Wilson's, at 95 %; ± is the standard deviation over data sets. "
            "The panels above show the first data sets, not chosen ones; this table is about all data sets.",
            "note",
        ),
        _differences(summary),
        Text(
            "On the same data sets and seeds, with the 95 % interval of the mean (Student's t), which needs two data "
            "sets or more. There is no correction for the number of comparisons.",
            "note",
        ),
        _success_bars(summary, success),
        _spans(summary),
        Heading("During the training"),
        *_charts(summary, courses, families, success),
    ]


def _datasets(summary: Summary) -> int:
    return int(next(iter(summary.values()))["datasets"])


def _share(entry: Mapping[str, Any]) -> Proportion:
    return wilson(round(entry["success_rate"] * entry["datasets"]), entry["datasets"])


def _whose_steps(summary: Summary) -> str:
    fewest = min(entry["steps"] for entry in summary.values())
    longer = [entry["title"] for entry in summary.values() if entry["steps"] > fewest]
    sentence = "The panels show the network that is evaluated: the student, if the method has one."
    if not longer:
        return sentence
    return f"{sentence} For {' and '.join(longer)}, the student's steps come after the teacher's."


def _results(summary: Summary) -> Table:
    rows = []
    for entry in summary.values():
        share, mean, std = _share(entry), entry["mean_accuracy"], entry["std_accuracy"]
        rows.append(
            [
                Cell(entry["title"]),
                Cell(f"{100 * share.share:.0f}", 100 * share.share),
                Cell(f"[{100 * share.low:.0f}, {100 * share.high:.0f}]", 100 * share.low),
                Cell(f"{100 * mean:.2f} ± {100 * std:.2f}", 100 * mean),
                Cell(f"{entry['datasets']}", entry["datasets"]),
                Cell(f"{entry['steps']:,}", entry["steps"]),
                Cell(f"{entry['seconds']:.1f}", entry["seconds"]),
            ]
        )
    columns = ("method", "success (%)", "95 % interval", "accuracy (%)", "data sets", "steps", "seconds")
    return Table("Successes and accuracy of each method", columns, rows)


def _differences(summary: Summary) -> Table:
    rows = []
    for entry in summary.values():
        for other, pair in entry["paired"].items():
            ends = "–" if pair["low"] is None else f"[{100 * pair['low']:+.2f}, {100 * pair['high']:+.2f}]"
            rows.append(
                [
                    Cell(entry["title"]),
                    Cell(summary[other]["title"]),
                    Cell(f"{100 * pair['mean']:+.2f}", 100 * pair["mean"]),
                    Cell(ends, None if pair["low"] is None else 100 * pair["low"]),
                    Cell(f"{pair['better']} / {pair['worse']}", pair["better"] - pair["worse"]),
                    Cell(str(pair["n"]), pair["n"]),
                ]
            )
    columns = ("method", "against", "difference (points)", "95 % interval", "better / worse on", "data sets")
    return Table("Paired differences of accuracy", columns, rows)


def _success_bars(summary: Summary, success: float) -> Figure:
    items = []
    for entry in summary.values():
        share = _share(entry)
        ends = 100 * share.low, 100 * share.high
        items.append(Bar(entry["title"], 100 * share.share, 0.0, f"{100 * share.share:.0f} %", ends))
    best = max(items, key=lambda bar: bar.value)
    description = f"Highest: {best.name}, {best.text}. Whiskers: 95 % intervals (Wilson)."
    return bars(f"Data sets (%) with {100 * success:g} % or more of the points right", description, items, 100.0)


def _spans(summary: Summary) -> Figure:
    shown = []
    for entry in summary.values():
        for other, pair in entry["paired"].items():
            ends = () if pair["low"] is None else (100 * pair["low"], 100 * pair["high"])
            shown.append(Span(entry["title"], f"against {summary[other]['title']}", 100 * pair["mean"], *ends))
    best = max(shown, key=lambda span: span.middle)
    largest = f"Largest: {best.name} {best.against}, {best.middle:+.1f}."
    description = f"{largest} Whiskers: 95 % intervals of the mean difference."
    return spans("Paired differences of accuracy (points)", description, shown)


def _charts(summary: Summary, courses: Mapping[str, Course], families: Families, success: float) -> list[Figure]:
    """Two charts for each family of methods, so that a chart has few lines."""
    lowest = 100 * min(float(np.mean(course.accuracies, 1).min()) for course in courses.values()) - 2
    means, shares = [], []
    for family, names in families.items():
        lines = [_line(summary[name]["title"], courses[name], courses[name].accuracies) for name in names]
        labels = "step", "mean accuracy (%)"
        means.append(line_chart(f"{family}: mean accuracy", _ends(lines), lines, labels, y=(lowest, 101.0)))
        lines = [_line(summary[name]["title"], courses[name], courses[name].accuracies >= success) for name in names]
        labels = "step", "successes (%)"
        shares.append(line_chart(f"{family}: successes", _ends(lines), lines, labels, y=(-3.0, 101.0)))
    return means + shares


def _line(title: str, course: Course, values: Any) -> Line:
    return Line(title, course.steps.astype(float), 100 * np.mean(values, 1), dots=True)


def _ends(lines: Sequence[Line]) -> str:
    ends = " ".join(f"{line.name}: {line.middle[-1]:.1f} % at the end." for line in lines)
    return f"{ends} Over all data sets, at some steps of the training."
