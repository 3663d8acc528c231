"""The verdict for people: verdict.md, a table on the terminal, and CSV files of pictures."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from metapl.predict.text import cell, path_cell
from metapl.system import escape

TITLES = {"supervised": "supervised (labelled pictures alone)", "mpl": "Meta Pseudo Labels (with unlabelled ones)"}
SHORT = {"supervised": "the supervised model", "mpl": "the Meta Pseudo Labels model"}
COLUMNS = ("path", "answer", "probability", "second", "second_probability")
LISTED = 10  # pictures in verdict.md; the files have all


def headline(found: Mapping[str, Any]) -> str:
    """The verdict in one sentence."""
    model = found["models"][found["recommended"]]
    return f"Use {SHORT[found['recommended']]}: {share(model)} accuracy; {found['why']}."


def outcome(found: Mapping[str, Any]) -> str:
    """What the unlabelled pictures did."""
    if found["difference"] is None:
        return "There were no unlabelled pictures."
    words = {"helped": "helped", "hurt": "HURT", "neutral": "made no difference that these pictures can show"}
    d = found["difference"]
    points = f"{100 * d['difference']:+.1f} points [{100 * d['low']:+.1f}, {100 * d['high']:+.1f}]"
    counts = f"{d['better']} only MPL got right, {d['worse']} only the baseline; by chance alone: p = {d['p']:.2g}"
    return f"The unlabelled pictures {words[found['unlabeled']]}: {points}, paired ({counts})."


def share(model: Mapping[str, Any]) -> str:
    """An accuracy with its interval."""
    return f"{100 * model['accuracy']:.1f} % [{100 * model['low']:.1f}, {100 * model['high']:.1f}]"


def show(found: Mapping[str, Any], console: Console) -> None:
    """Print what a person must not miss."""
    table = Table("model")
    for column in ("accuracy [95 %]", "mean of classes", "calibration error", "calibrated"):
        table.add_column(column, justify="right")
    for name, model in found["models"].items():
        table.add_row(name, *_cells(model))
    console.print(table)
    measured = f"Measured on {found['pictures']:,} pictures: {found['measured_on']}."
    for line in (measured, outcome(found), *found["warnings"], headline(found)):
        console.print(Text(line), soft_wrap=True)


def _cells(model: Mapping[str, Any]) -> tuple[str, ...]:
    errors = (model["calibration_error"], model["calibration_error_calibrated"])
    return (share(model), f"{100 * model['mean_class_accuracy']:.1f} %", *(f"{100 * error:.1f} %" for error in errors))


def markdown(found: Mapping[str, Any]) -> str:
    """The whole verdict as a page; names are escaped, so that none is taken for markup."""
    lines = ["# Verdict", "", f"**{escape.markdown(headline(found))}**", "", escape.markdown(outcome(found)), ""]
    lines += [line for warning in found["warnings"] for line in (f"> **Note:** {escape.markdown(warning)}", "")]
    lines += [
        "## How good",
        "",
        f"Measured on {found['pictures']:,} pictures: {escape.markdown(found['measured_on'])}.",
        "",
    ]
    header = ("model", "accuracy [95 %]", "mean of classes", "calibration error", "calibrated", "temperature")
    rows = [[TITLES[n], *_cells(m), f"{m['temperature']:.2f}"] for n, m in found["models"].items()]
    lines += [*table(header, rows), ""]
    lines += ["## Worst classes", "", *_worst(found["worst_classes"]), ""]
    lines += [
        "## Least sure of",
        "",
        "Held-out pictures, all in `least_sure.csv`:",
        "",
        *_pictures(found["least_sure"]),
    ]
    lines += ["", "## What to label next", ""]
    if found["label_next"]:
        lines += ["Unlabelled pictures it is unsure of, no two alike, in this order; all in `label_next.csv`:", ""]
        lines += [*_pictures(found["label_next"]), ""]
    else:
        lines += ["There are no unlabelled pictures to choose from; label more of the worst classes.", ""]
    lines += ["## What was chosen, and why", "", *(f"- {escape.markdown(reason)}" for reason in found["chosen"]), ""]
    if found["remarks"]:
        lines += ["## About the data", "", *(f"- {escape.markdown(remark)}" for remark in found["remarks"]), ""]
    return "\n".join(lines)


def _worst(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    if not rows:
        return ["No class has a mistake on these pictures."]
    header = ("class", "accuracy [95 %]", "pictures", "most often taken for", "labelled for training")
    cells = [
        [row["class"], share(row), str(row["pictures"]), row["taken_for"], str(row["labelled_for_training"])]
        for row in rows
    ]
    return table(header, cells)


def _pictures(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    header = (
        ("picture", "label", "answer", "second") if rows and "label" in rows[0] else ("picture", "answer", "second")
    )
    cells = []
    for row in rows[:LISTED]:
        answer = [f"{row['answer']} {row['probability']:.0%}", f"{row['second']} {row['second_probability']:.0%}"]
        cells.append([row["path"], *([row["label"]] if "label" in row else []), *answer])
    return table(header, cells)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table."""
    lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    return lines + [f"| {' | '.join(map(escape.markdown, row))} |" for row in rows]


def rows_as_csv(rows: Sequence[Mapping[str, Any]], first: Sequence[str] = ()) -> bytes:
    """Pictures and answers as a CSV file, in which no name is taken for a formula."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, [*COLUMNS[:1], *first, *COLUMNS[1:]])
    writer.writeheader()
    for row in rows:
        names = {key: cell(value) for key, value in row.items() if isinstance(value, str)}
        writer.writerow({**row, **names, "path": path_cell(Path(row["path"]))})
    return text.getvalue().encode()
