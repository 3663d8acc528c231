"""All runs together: a list of them, their scores and differences, and charts like the paper's Figures 3 and 5."""

import csv
import math
from collections.abc import Mapping, Sequence

import numpy as np

from metapl.evaluate.statistics import Paired, mean_and_std
from metapl.report import method
from metapl.report.bars import Bar, bars
from metapl.report.blocks import Block, Cell, Figure, Heading, Table, Text
from metapl.report.compare import ALL_PAIRS, Experiment, by_data, over_splits, pairs
from metapl.report.method import RUNGS, Origin
from metapl.report.read import ReportedRun
from metapl.report.run_section import SCORES, score_cell
from metapl.report.svg import Line, line_chart

MOST_BARS = 40


def overview(
    loaded: Sequence[ReportedRun], experiments: Sequence[Experiment], origins: Mapping[str, Origin]
) -> list[Block]:
    """The first part of the page."""
    blocks: list[Block] = [Heading("What was run"), _runs(loaded, origins)]
    blocks.append(Heading("Results"))
    if not experiments:
        return [*blocks, Text("No run is finished yet: there is nothing to compare.", "note")]
    blocks += [_leaderboard(experiments), Text(_how_counted(experiments), "note"), *_differences(experiments)]
    figures = [*(_accuracies(group) for group in by_data(experiments).values() if len(group) > 1)]
    figures += [*ladders(experiments), *against_labels(experiments)]
    return [*blocks, *(figure for figure in figures if figure is not None)]


def _runs(loaded: Sequence[ReportedRun], origins: Mapping[str, Origin]) -> Table:
    rows = []
    for reported in loaded:
        run, origin = reported.run, origins[reported.anchor]
        done = f"{run.steps:,} of {run.total_steps:,}" if run.steps is not None and run.total_steps else "–"
        preset = origin.preset + (" (changed)" if origin.changes else "") or "–"
        labels = Cell("–") if reported.labels is None else Cell(f"{reported.labels:,}", reported.labels)
        share = run.steps / run.total_steps if run.steps is not None and run.total_steps else None
        remarks = [run.note] if run.note else []
        remarks += [f"missing: {', '.join(reported.missing)}"] if reported.missing else []
        rows.append(
            [
                Cell(reported.name, anchor=reported.anchor),
                Cell(method.title(reported)),
                score_cell("accuracy", reported.scores("accuracy") if reported.finished else {}),
                Cell("–") if run.seeds is None else Cell(str(run.seeds), run.seeds),
                Cell(run.state),
                Cell(done, share),
                Cell(run.data or "–"),
                labels,
                Cell(preset),
                Cell("; ".join(remarks) or "–"),
            ]
        )
    columns = ("run", "method", "accuracy (%)", "seeds", "state", "steps", "data", "labels", "preset", "remarks")
    return Table(f"{len(loaded)} {'run' if len(loaded) == 1 else 'runs'}", columns, rows)


def _leaderboard(experiments: Sequence[Experiment]) -> Table:
    shown = [name for name in SCORES if any(experiment.scores(name) for experiment in experiments)]
    ordered = sorted(experiments, key=lambda experiment: (experiment.data, experiment.data_key, -experiment.accuracy))
    rows = [
        [
            Cell(experiment.title),
            Cell(experiment.data),
            *(score_cell(name, experiment.scores(name)) for name in shown),
            Cell(str(len(experiment.scores("accuracy"))), len(experiment.scores("accuracy"))),
            Cell(experiment.origin.number or "–"),
            Cell(experiment.network),
            Cell(experiment.name, anchor=experiment.runs[0].anchor),
        ]
        for experiment in ordered
    ]
    scores = [SCORES[name][0] for name in shown]
    columns = ("method", "data", *scores, "n", "the paper's number", "network", "run")
    return Table("Test scores of the final weights, by data and method", columns, rows)


def _how_counted(experiments: Sequence[Experiment]) -> str:
    single = all(len(experiment.runs) == 1 for experiment in experiments)
    same = "" if single else "Runs that differ only in their seeds share a row. "
    return (
        f"{same}± is the standard deviation over n seeds (n − 1). –: not reported. The paper's number is given for "
        "runs with exactly the settings of its preset; it is quoted from the preset's header. The report selects "
        "nothing by test scores."
    )


def _differences(experiments: Sequence[Experiment]) -> list[Block]:
    rows, many = [], False
    for group in by_data(experiments).values():
        many |= len(group) > ALL_PAIRS
        rows += [_difference(ours.data, ours, theirs, difference) for ours, theirs, difference in pairs(group)]
    for ours, theirs, difference, splits in over_splits(experiments):
        rows.append(_difference(f"{splits} splits of {ours.source}", ours, theirs, difference))
    if not rows:
        return [Text("No two of these experiments share data and seeds: there are no paired differences.", "note")]
    note = (
        "Differences between runs with the same data and the same seed; over several splits, with the same split and "
        "seed. The interval is that of the mean, at 95 % (Student's t); it needs two common seeds or more. On one "
        "split it shows how much seeds differ, not how much other data would. There is no correction for the number "
        "of comparisons."
    )
    if many:
        note += f" Of more than {ALL_PAIRS} experiments on the same data, each is compared with the first one given."
    columns = ("data", "this", "against", "difference (points)", "95 % interval", "better / worse", "n")
    return [Table("Paired differences of test accuracy", columns, rows), Text(note, "note")]


def _difference(data: str, ours: Experiment, theirs: Experiment, difference: Paired) -> list[Cell]:
    ends = "–" if difference.low is None else f"[{100 * difference.low:+.2f}, {100 * (difference.high or 0):+.2f}]"
    return [
        Cell(data),
        Cell(f"{ours.title} ({ours.name})"),
        Cell(f"{theirs.title} ({theirs.name})"),
        Cell(f"{100 * difference.mean:+.2f}", 100 * difference.mean),
        Cell(ends),
        Cell(f"{difference.better} / {difference.worse}", difference.better - difference.worse),
        Cell(str(difference.n), difference.n),
    ]


def _accuracies(group: Sequence[Experiment]) -> Figure:
    ordered = sorted(group, key=lambda experiment: -experiment.accuracy)[:MOST_BARS]
    titles = [experiment.title for experiment in group]
    named = [each.title if titles.count(each.title) == 1 else f"{each.title} ({each.name})" for each in ordered]
    items = [_bar(name, *(each.spread() or (0.0, 0.0, 0))) for name, each in zip(named, ordered, strict=True)]
    cut = f" The best {MOST_BARS} of {len(group)}." if len(group) > MOST_BARS else ""
    description = f"Highest: {named[0]}, {items[0].text}. Whiskers: ± one standard deviation over seeds.{cut}"
    return bars(f"Test accuracy on {group[0].data} (%)", description, items, 100.0)


def _bar(name: str, mean: float, std: float, seeds: int, gain: str = "") -> Bar:
    spread = f" ± {100 * std:.2f}" if seeds > 1 else ""
    return Bar(name, 100 * mean, 100 * std if seeds > 1 else 0.0, f"{100 * mean:.2f}{spread}{gain}")


def ladders(experiments: Sequence[Experiment]) -> list[Figure]:
    """What each part of the method adds, as in the paper's Figure 3; for data with three parts or more."""
    groups: dict[tuple[str, str], dict[str, tuple[float, float, int]]] = {}
    for each in sorted(experiments, key=_is_not_a_preset):
        rungs = groups.setdefault((each.data_key, each.network), {})
        if (spread := each.spread()) is not None:
            rungs.setdefault(each.title, spread)
    for each in experiments:  # an evaluation before the finetuning is a rung, too
        before = each.title.removesuffix(" + finetuning")
        scores = _before_last_stage(each) if before != each.title else []
        if scores:
            groups[each.data_key, each.network].setdefault(before, (*mean_and_std(np.array(scores)), len(scores)))
    names = {each.data_key: each.data for each in experiments}
    return [
        _ladder(names[key], {name: rungs[name] for name in RUNGS if name in rungs})
        for (key, _), rungs in groups.items()
        if sum(name in rungs for name in RUNGS) >= 3
    ]


def _is_not_a_preset(experiment: Experiment) -> bool:
    """Whether its settings differ from every preset's."""
    return not experiment.origin.preset or bool(experiment.origin.changes)


def _ladder(data: str, rungs: Mapping[str, tuple[float, float, int]]) -> Figure:
    items, before = [], None
    for name, (mean, std, seeds) in rungs.items():
        gain = "" if before is None else f" ({100 * (mean - before):+.2f})"
        items.append(_bar(name, mean, std, seeds, gain))
        before = mean
    description = (
        "In the order of the paper's Figure 3; in brackets, the difference to the bar above in points. Parts without "
        "a run are left out. If a part was run with several settings, the preset's are shown, or else the first."
    )
    return bars(f"What each part adds on {data}: test accuracy (%)", description, items, 100.0)


def _before_last_stage(experiment: Experiment) -> list[float]:
    """The last evaluation before the last stage, for each seed."""
    by_seed: dict[int, float] = {}
    for run in experiment.runs:
        stage = len(run.stages) - 2
        try:
            with (run.run.path / "evaluations.csv").open(newline="", encoding="utf-8") as file:
                for line in csv.DictReader(file):
                    if int(line["stage"]) == stage and int(line["step"]) == run.stage_steps[stage]:
                        by_seed[int(line["seed"])] = float(line["test_accuracy"])
        except (OSError, ValueError, KeyError, TypeError, IndexError, csv.Error):
            return []
    values = list(by_seed.values())
    return values if all(map(math.isfinite, values)) else []


def against_labels(experiments: Sequence[Experiment]) -> list[Figure]:
    """Accuracy over the number of labels, as in the paper's Figure 5; for methods with several numbers of labels."""
    sources: dict[tuple[str, str], dict[str, dict[int, list[float]]]] = {}
    seen: set[tuple[str, str, str]] = set()
    for each in sorted(experiments, key=_is_not_a_preset):
        key = each.data_key, each.network, each.title
        if each.labels and key not in seen:
            seen.add(key)
            methods = sources.setdefault((each.source, each.network), {})
            methods.setdefault(each.title, {}).setdefault(each.labels, []).extend(each.scores("accuracy").values())
    figures = []
    for (source, _), methods in sources.items():
        lines = [_over_labels(name, accuracies) for name, accuracies in methods.items() if len(accuracies) > 1]
        if lines:
            ends = " ".join(f"{line.name}: from {line.middle[0]:.2f} to {line.middle[-1]:.2f} %." for line in lines)
            description = (
                f"{ends} Vertical lines: ± one standard deviation over seeds and splits. If a method was run with "
                "several settings on the same data, the preset's are shown, or else the first."
            )
            labels = ("labels", "test accuracy (%)")
            figures.append(line_chart(f"Accuracy against labels on {source}", description, lines, labels, log_x=True))
    return figures


def _over_labels(name: str, accuracies: Mapping[int, list[float]]) -> Line:
    counts = sorted(accuracies)
    mean, std = 100 * np.array([mean_and_std(np.array(accuracies[count])) for count in counts]).T
    return Line(name, np.array(counts, float), mean, mean - std, mean + std, dots=True)
