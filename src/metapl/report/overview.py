"""All runs together: what was run, who is ahead, by how much, and what the paper's Figures 3 and 5 ask."""

import csv
import math
from collections.abc import Mapping, Sequence

import numpy as np

from metapl.evaluate.statistics import Paired, mean_and_std
from metapl.report import method
from metapl.report.blocks import Block, Cell, Figure, Heading, Table, Text
from metapl.report.compare import ALL_PAIRS, Row, by_data, over_splits, pairs
from metapl.report.method import RUNGS, Origin
from metapl.report.read import Loaded
from metapl.report.run_section import SCORES, score_cell
from metapl.report.svg import Bar, Line, bars, line_chart

MOST_BARS = 40


def overview(loaded: Sequence[Loaded], rows: Sequence[Row], origins: Mapping[str, Origin]) -> list[Block]:
    """The first part of the page."""
    blocks: list[Block] = [Heading("What was run"), _runs(loaded, origins)]
    blocks.append(Heading("Results"))
    if not rows:
        return [*blocks, Text("No run has come to its end yet: there is nothing to compare.", "note")]
    blocks += [_leaderboard(rows), Text(_how_counted(rows), "note"), *_differences(rows)]
    figures = [*(_accuracies(group) for group in by_data(rows).values() if len(group) > 1), *ladders(rows)]
    figures += against_labels(rows)
    return [*blocks, *(figure for figure in figures if figure is not None)]


def _runs(loaded: Sequence[Loaded], origins: Mapping[str, Origin]) -> Table:
    rows = []
    for one in loaded:
        run, origin = one.run, origins[one.anchor]
        done = f"{run.steps:,} of {run.total_steps:,}" if run.steps is not None and run.total_steps else "–"
        preset = origin.preset + (" (changed)" if origin.changes else "") or "–"
        labels = Cell("–") if one.labels is None else Cell(f"{one.labels:,}", one.labels)
        share = run.steps / run.total_steps if run.steps is not None and run.total_steps else None
        told = "; ".join([run.note] * bool(run.note) + [f"missing: {', '.join(one.missing)}"] * bool(one.missing))
        rows.append(
            [
                Cell(one.name, anchor=one.anchor),
                Cell(method.title(one)),
                score_cell("accuracy", one.scores("accuracy") if one.finished else {}),
                Cell("–") if run.seeds is None else Cell(str(run.seeds), run.seeds),
                Cell(run.state),
                Cell(done, share),
                Cell(run.data or "–"),
                labels,
                Cell(preset),
                Cell(told or "–"),
            ]
        )
    columns = ("run", "method", "accuracy (%)", "seeds", "state", "steps", "data", "labels", "preset", "remarks")
    return Table(f"{len(loaded)} {'run' if len(loaded) == 1 else 'runs'}", columns, rows)


def _leaderboard(rows: Sequence[Row]) -> Table:
    shown = [name for name in SCORES if any(row.scores(name) for row in rows)]
    ordered = sorted(rows, key=lambda row: (row.data, row.data_key, -row.accuracy))
    lines = [
        [
            Cell(row.title),
            Cell(row.data),
            *(score_cell(name, row.scores(name)) for name in shown),
            Cell(str(len(row.scores("accuracy"))), len(row.scores("accuracy"))),
            Cell(row.origin.number or "–"),
            Cell(row.network),
            Cell(row.name, anchor=row.runs[0].anchor),
        ]
        for row in ordered
    ]
    scores = [SCORES[name][0] for name in shown]
    columns = ("method", "data", *scores, "n", "the paper's number", "network", "run")
    return Table("Test scores of the final weights, by data and method", columns, lines)


def _how_counted(rows: Sequence[Row]) -> str:
    same = "" if all(len(row.runs) == 1 for row in rows) else "Runs that differ in their seeds alone are one row. "
    return (
        f"{same}± is the standard deviation over n seeds (n − 1). The paper's number stands beside runs whose settings "
        "are those of its preset; it is quoted from the preset's header. Nothing is chosen by test scores."
    )


def _differences(rows: Sequence[Row]) -> list[Block]:
    lines, many = [], False
    for group in by_data(rows).values():
        many |= len(group) > ALL_PAIRS
        lines += [_difference(ours.data, ours, theirs, found) for ours, theirs, found in pairs(group)]
    for ours, theirs, found, splits in over_splits(rows):
        lines.append(_difference(f"{splits} splits of {ours.source}", ours, theirs, found))
    if not lines:
        return [Text("No two of these experiments share data and seeds: there are no paired differences.", "note")]
    said = (
        "Same data, same seeds, seed by seed; over several splits, by split and seed. The interval is the 95 % one of "
        "the mean (Student's t); with one common seed there is none. On one split it tells how far seeds scatter, not "
        "how other data would come out. Nothing is corrected for the number of comparisons."
    )
    if many:
        said += f" Of more than {ALL_PAIRS} experiments on the same data, each is held against the first one given."
    columns = ("data", "this", "against", "difference (points)", "95 % interval", "ahead / behind", "n")
    return [Table("Paired differences of test accuracy", columns, lines), Text(said, "note")]


def _difference(data: str, ours: Row, theirs: Row, found: Paired) -> list[Cell]:
    ends = "–" if found.low is None else f"[{100 * found.low:+.2f}, {100 * (found.high or 0):+.2f}]"
    return [
        Cell(data),
        Cell(f"{ours.title} ({ours.name})"),
        Cell(f"{theirs.title} ({theirs.name})"),
        Cell(f"{100 * found.mean:+.2f}", 100 * found.mean),
        Cell(ends),
        Cell(f"{found.better} / {found.worse}", found.better - found.worse),
        Cell(str(found.n), found.n),
    ]


def _accuracies(group: Sequence[Row]) -> Figure:
    ordered = sorted(group, key=lambda row: -row.accuracy)[:MOST_BARS]
    titles = [row.title for row in group]
    named = [row.title if titles.count(row.title) == 1 else f"{row.title} ({row.name})" for row in ordered]
    items = [_bar(name, *(row.spread() or (0.0, 0.0, 0))) for name, row in zip(named, ordered, strict=True)]
    cut = f" The best {MOST_BARS} of {len(group)}." if len(group) > MOST_BARS else ""
    said = f"Highest: {named[0]}, {items[0].text}. Whiskers: ± one standard deviation over seeds.{cut}"
    return bars(f"Test accuracy on {group[0].data} (%)", said, items, 100.0)


def _bar(name: str, mean: float, std: float, seeds: int, gain: str = "") -> Bar:
    spread = f" ± {100 * std:.2f}" if seeds > 1 else ""
    return Bar(name, 100 * mean, 100 * std if seeds > 1 else 0.0, f"{100 * mean:.2f}{spread}{gain}")


def ladders(rows: Sequence[Row]) -> list[Figure]:
    """What each part of the method adds, as in the paper's Figure 3, where three parts or more were run alike."""
    groups: dict[tuple[str, str], dict[str, tuple[float, float, int]]] = {}
    for row in sorted(rows, key=_is_own):
        rungs = groups.setdefault((row.data_key, row.network), {})
        if (spread := row.spread()) is not None:
            rungs.setdefault(row.title, spread)
    for row in rows:  # where a run was evaluated before its finetuning, that is a rung, too
        before = row.title.removesuffix(" + finetuning")
        scores = _before_last_stage(row) if before != row.title else []
        if scores:
            groups[row.data_key, row.network].setdefault(before, (*mean_and_std(np.array(scores)), len(scores)))
    names = {row.data_key: row.data for row in rows}
    return [
        _ladder(names[key], {name: rungs[name] for name in RUNGS if name in rungs})
        for (key, _), rungs in groups.items()
        if sum(name in rungs for name in RUNGS) >= 3
    ]


def _is_own(row: Row) -> bool:
    """Has it settings that are no preset's?"""
    return not row.origin.preset or bool(row.origin.changes)


def _ladder(data: str, rungs: Mapping[str, tuple[float, float, int]]) -> Figure:
    items, before = [], None
    for name, (mean, std, seeds) in rungs.items():
        gain = "" if before is None else f" ({100 * (mean - before):+.2f})"
        items.append(_bar(name, mean, std, seeds, gain))
        before = mean
    said = (
        "In the order of the paper's Figure 3; in brackets, points more than the bar above. Parts that were not run "
        "are not shown; of a part that was run with several settings, those of a preset count, or else the first."
    )
    return bars(f"What each part adds on {data}: test accuracy (%)", said, items, 100.0)


def _before_last_stage(row: Row) -> list[float]:
    """The last evaluation before the last stage, of each seed."""
    found: dict[int, float] = {}
    for run in row.runs:
        stage = len(run.stages) - 2
        try:
            with (run.run.path / "evaluations.csv").open(newline="", encoding="utf-8") as file:
                for line in csv.DictReader(file):
                    if int(line["stage"]) == stage and int(line["step"]) == run.stage_steps[stage]:
                        found[int(line["seed"])] = float(line["test_accuracy"])
        except (OSError, ValueError, KeyError, TypeError, IndexError, csv.Error):
            return []
    values = list(found.values())
    return values if all(map(math.isfinite, values)) else []


def against_labels(rows: Sequence[Row]) -> list[Figure]:
    """Accuracy over the number of labels, as in the paper's Figure 5, of methods that have several of them."""
    sources: dict[tuple[str, str], dict[str, dict[int, list[float]]]] = {}
    there: set[tuple[str, str, str]] = set()
    for row in sorted(rows, key=_is_own):
        place = row.data_key, row.network, row.title
        if row.labels and place not in there:
            there.add(place)
            methods = sources.setdefault((row.source, row.network), {})
            methods.setdefault(row.title, {}).setdefault(row.labels, []).extend(row.scores("accuracy").values())
    figures = []
    for (source, _), methods in sources.items():
        lines = [_over_labels(name, found) for name, found in methods.items() if len(found) > 1]
        if lines:
            told = " ".join(f"{line.name}: from {line.middle[0]:.2f} to {line.middle[-1]:.2f} %." for line in lines)
            said = (
                f"{told} Uprights: ± one standard deviation over seeds and splits. Of what was run with several "
                "settings on the same data, those of a preset count, or else the first."
            )
            labels = ("labels", "test accuracy (%)")
            figures.append(line_chart(f"Accuracy against labels on {source}", said, lines, labels, log_x=True))
    return figures


def _over_labels(name: str, found: Mapping[int, list[float]]) -> Line:
    counts = sorted(found)
    mean, std = 100 * np.array([mean_and_std(np.array(found[count])) for count in counts]).T
    return Line(name, np.array(counts, float), mean, mean - std, mean + std, dots=True)
