"""The verdict as text: verdict.md, a table on the terminal, and CSV files of pictures."""

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
COLUMNS = ("path", "prediction", "probability", "second", "second_probability")
LISTED = 10  # pictures in verdict.md; the CSV files have more


def headline(verdict: Mapping[str, Any]) -> str:
    """The verdict in one sentence."""
    model = verdict["models"][verdict["recommended"]]
    return f"Use {SHORT[verdict['recommended']]}: {share(model)} accuracy; {verdict['why']}."


def outcome(verdict: Mapping[str, Any]) -> str:
    """Whether the unlabelled pictures helped, in one sentence."""
    if verdict["difference"] is None:
        return "There were no unlabelled pictures."
    words = {"helped": "helped", "hurt": "HURT", "neutral": "made no measurable difference"}
    d = verdict["difference"]
    points = f"{100 * d['difference']:+.1f} points [{100 * d['low']:+.1f}, {100 * d['high']:+.1f}]"
    counts = f"only MPL right: {d['better']}, only the baseline right: {d['worse']}; McNemar's test: p = {d['p']:.2g}"
    return f"The unlabelled pictures {words[verdict['unlabeled']]}: {points} ({counts})."


def share(model: Mapping[str, Any]) -> str:
    """An accuracy with its interval."""
    return f"{100 * model['accuracy']:.1f} % [{100 * model['low']:.1f}, {100 * model['high']:.1f}]"


def show(verdict: Mapping[str, Any], console: Console) -> None:
    """Print the most important results."""
    table = Table("model")
    for column in ("accuracy [95 %]", "mean of classes", "calibration error", "calibrated"):
        table.add_column(column, justify="right")
    for name, model in verdict["models"].items():
        table.add_row(name, *_cells(model))
    console.print(table)
    measured = f"Measured on {verdict['pictures']:,} pictures: {verdict['measured_on']}."
    for line in (measured, outcome(verdict), *verdict["warnings"], headline(verdict)):
        console.print(Text(line), soft_wrap=True)


def _cells(model: Mapping[str, Any]) -> tuple[str, ...]:
    errors = (model["calibration_error"], model["calibration_error_calibrated"])
    return (share(model), f"{100 * model['mean_class_accuracy']:.1f} %", *(f"{100 * error:.1f} %" for error in errors))


def markdown(verdict: Mapping[str, Any]) -> str:
    """The whole verdict as a page of Markdown. Names are escaped, so that none acts as markup."""
    lines = ["# Verdict", "", f"**{escape.markdown(headline(verdict))}**", "", escape.markdown(outcome(verdict)), ""]
    lines += [line for warning in verdict["warnings"] for line in (f"> **Note:** {escape.markdown(warning)}", "")]
    lines += [
        "## How good",
        "",
        f"Measured on {verdict['pictures']:,} pictures: {escape.markdown(verdict['measured_on'])}.",
        "",
    ]
    header = ("model", "accuracy [95 %]", "mean of classes", "calibration error", "calibrated", "temperature")
    rows = [[TITLES[n], *_cells(m), f"{m['temperature']:.2f}"] for n, m in verdict["models"].items()]
    lines += [*table(header, rows), ""]
    lines += ["## Worst classes", "", *_worst(verdict["worst_classes"]), ""]
    lines += [
        "## Least sure",
        "",
        "Held-out pictures that the model is least sure of; `least_sure.csv` has more:",
        "",
        *_pictures(verdict["least_sure"]),
    ]
    lines += ["", "## What to label next", ""]
    if verdict["label_next"]:
        lines += [
            "Unlabelled pictures that the model is unsure of and that differ from each other, the most useful first; "
            "`label_next.csv` has more:",
            "",
        ]
        lines += [*_pictures(verdict["label_next"]), ""]
    else:
        lines += ["There are no unlabelled pictures to choose from; label more of the worst classes.", ""]
    lines += ["## What was chosen, and why", "", *(f"- {escape.markdown(reason)}" for reason in verdict["chosen"]), ""]
    if verdict["remarks"]:
        lines += ["## About the data", "", *(f"- {escape.markdown(remark)}" for remark in verdict["remarks"]), ""]
    return "\n".join(lines)


def _worst(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    if not rows:
        return ["The model made no mistake on these pictures."]
    header = ("class", "accuracy [95 %]", "pictures", "most often taken for", "labelled pictures trained on")
    cells = [[row["class"], share(row), str(row["pictures"]), row["taken_for"], str(row["labeled"])] for row in rows]
    return table(header, cells)


def _pictures(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    header = (
        ("picture", "label", "prediction", "second")
        if rows and "label" in rows[0]
        else ("picture", "prediction", "second")
    )
    cells = []
    for row in rows[:LISTED]:
        classes = [
            f"{row['prediction']} {row['probability']:.0%}",
            f"{row['second']} {row['second_probability']:.0%}",
        ]
        cells.append([row["path"], *([row["label"]] if "label" in row else []), *classes])
    return table(header, cells)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table."""
    lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    return lines + [f"| {' | '.join(map(escape.markdown, row))} |" for row in rows]


def rows_as_csv(rows: Sequence[Mapping[str, Any]], first: Sequence[str] = ()) -> bytes:
    """Pictures and predictions as a CSV file, in which no spreadsheet takes a name for a formula."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, [*COLUMNS[:1], *first, *COLUMNS[1:]])
    writer.writeheader()
    for row in rows:
        names = {key: cell(value) for key, value in row.items() if isinstance(value, str)}
        writer.writerow({**row, **names, "path": path_cell(Path(row["path"]))})
    return text.getvalue().encode()
