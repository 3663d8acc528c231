"""How often a run predicts each class right, and which classes it confuses."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from metapl.report.bars import Bar, bars
from metapl.report.blocks import Cell, Figure, Plain, Table, Text
from metapl.report.heat_map import heat_map
from metapl.report.large_matrix import large_matrix
from metapl.report.read import ReportedRun

MOST_IN_MAP = 20  # classes; with more, the cells of a heat map with numbers would be too small
MOST_BARS = 24
MOST_MISTAKES = {False: 10, True: 25}  # listed pairs, for few classes and for many


def classes(loaded: ReportedRun) -> list[Plain]:
    """Bars, the confusion matrix, the most frequent mistakes."""
    counts, names = loaded.confusion, loaded.class_names
    if counts is None:
        why = "confusion.npz is missing or damaged" if loaded.finished else "the run is not finished"
        return [Text(f"No confusion matrix and no numbers for each class: {why}.", "note")]
    if not counts.sum():
        return [Text("No confusion matrix and no numbers for each class: the test part has no examples.", "note")]
    seeds = len(loaded.scores("accuracy"))
    over = f"All {seeds} seeds together." if seeds > 1 else "One seed."
    blocks: list[Plain] = [_bars(counts, names, over)]
    many = len(names) > MOST_IN_MAP
    draw = large_matrix if many else heat_map
    blocks.append(draw("Confusion matrix of the test part", f"{over} {_worst(counts, names)}", counts, names))
    if len(names) > 2:
        blocks.append(_mistakes(counts, names, MOST_MISTAKES[many]))
    return blocks


def _bars(counts: NDArray[np.int64], names: Sequence[str], over: str) -> Figure:
    totals = counts.sum(1)
    known = np.flatnonzero(totals)
    right = np.diag(counts)[known] / totals[known]
    order = np.argsort(right, kind="stable")
    shown, left_out = list(range(len(known))), ""
    if len(known) > MOST_BARS:
        half = MOST_BARS // 2
        shown = [*order[:half].tolist(), *order[-half:].tolist()]
        left_out = f" The {half} worst and the {half} best of {len(known)} classes."
    items = [Bar(names[int(known[i])], 100 * float(right[i]), 0.0, f"{100 * right[i]:.1f} %") for i in shown]
    description = f"{over}{left_out} Worst: {names[int(known[order[0]])]} ({100 * right[order[0]]:.1f} %)."
    return bars("Test accuracy of each class (%)", description, items, 100.0)


def _worst(counts: NDArray[np.int64], names: Sequence[str]) -> str:
    wrong = counts - np.diag(np.diag(counts))
    if not wrong.any():
        return "There are no mistakes."
    i, j = map(int, np.unravel_index(wrong.argmax(), wrong.shape))
    return f"Most frequent mistake: {names[i]} predicted as {names[j]}, {wrong[i, j]:,} times."


def _mistakes(counts: NDArray[np.int64], names: Sequence[str], most: int) -> Table:
    wrong = counts - np.diag(np.diag(counts))
    totals = counts.sum(1)
    places = [divmod(place, len(names)) for place in np.argsort(-wrong, axis=None, kind="stable")[:most].tolist()]
    rows = [
        [
            Cell(names[i]),
            Cell(names[j]),
            Cell(f"{wrong[i, j]:,}", float(wrong[i, j])),
            Cell(f"{100 * wrong[i, j] / totals[i]:.1f}", float(100 * wrong[i, j] / totals[i])),
        ]
        for i, j in places
        if wrong[i, j]
    ]
    title = "Most frequent mistakes" if rows else "There are no mistakes"
    return Table(title, ("true class", "predicted class", "times", "% of the class"), rows)
