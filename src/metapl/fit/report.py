"""The verdict as text: verdict.md, a table on the terminal, and CSV files of pictures."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from metapl.fit.clock import in_words
from metapl.fit.rung import TITLES
from metapl.fit.select import PREFERRED
from metapl.fit.verdict import ALONE
from metapl.predict.text import cell, path_cell
from metapl.system import escape

COLUMNS = ("path", "prediction", "probability", "second", "second_probability")
WITH_LABEL = ("path", "label", *COLUMNS[1:])
FOREIGN = ("path", "labeled_near", "nearest", "similarity")
WORST_HEADER = ("class", "accuracy [95 %]", "pictures", "most often taken for", "labelled pictures trained on")
LISTED = 10  # pictures in verdict.md; the CSV files have more


def headline(verdict: Mapping[str, Any]) -> str:
    """The verdict in one sentence."""
    model = next(row for row in verdict["ladder"] if row["name"] == verdict["recommended"])
    return f"Use {verdict['title']}: {share(model)} accuracy; {verdict['why']}."


def against_linear(verdict: Mapping[str, Any]) -> str:
    """How the recommended rung compares with scikit-learn's answer, in one sentence."""
    linear = verdict["ladder"][0]
    if (d := verdict["over_linear"]) is None:
        return f"This is scikit-learn's answer: logistic regression on features ({share(linear)})."
    counts = f"only this model right: {d['better']}, only logistic regression right: {d['worse']}; p = {d['p']:.2g}"
    return f"Scikit-learn's answer, logistic regression on the labels, has {share(linear)}: {points(d)} ({counts})."


def outcome(verdict: Mapping[str, Any]) -> str:
    """Whether the unlabelled pictures helped, and how that was measured."""
    if (d := verdict["difference"]) is None:
        return "No rung has learnt from unlabelled pictures."
    words = {"helped": "helped", "hurt": "HURT", "neutral": "made no measurable difference"}
    pair = " over ".join(verdict.get("compared", ()))
    counts = f"only with them right: {d['better']}, only without them right: {d['worse']}; McNemar's test: "
    measured = f"{pair and pair + ' '}{points(d)} ({counts}p = {d['p']:.2g})"
    said = f"The unlabelled pictures {words[verdict['unlabeled']]}: {measured}."
    alone = [row for row in verdict["ladder"] if row["name"] in ALONE and row["uses_unlabeled"]]
    if not alone:
        return said
    shown = next((row for row in alone if row["name"] == verdict["recommended"]), alone[0])
    return f"{said} metapl did not train {shown['title']} without them, so it cannot say how much they helped there."


def points(difference: Mapping[str, Any]) -> str:
    """A difference of accuracies with its interval."""
    ends = f"[{100 * difference['low']:+.1f}, {100 * difference['high']:+.1f}]"
    return f"{100 * difference['difference']:+.1f} points {ends}"


def share(model: Mapping[str, Any]) -> str:
    """An accuracy with its interval."""
    return f"{100 * model['accuracy']:.1f} % [{100 * model['low']:.1f}, {100 * model['high']:.1f}]"


def show(verdict: Mapping[str, Any], console: Console) -> None:
    """Print the most important results; a terminal has room for some columns of the table."""
    shown = Table("rung")
    for column in IN_TERMINAL:
        shown.add_column(column, justify="right", no_wrap=True)
    for row in verdict["ladder"]:
        mark = "→ " if row["name"] == verdict["recommended"] else "  "
        of_row = dict(zip(HEADER[1:], cells(row), strict=True))
        shown.add_row(Text(mark + row["title"]), *(of_row[column].replace(" points", "") for column in IN_TERMINAL))
    console.print(shown)
    measured = f"Measured on {verdict['pictures']:,} pictures: {verdict['measured_on']}."
    said = (measured, outcome(verdict), *verdict["warnings"], *verdict["advice"], headline(verdict))
    for line in (*said, against_linear(verdict)):
        console.print(Text(line), soft_wrap=True)


HEADER = ("rung", "test accuracy [95 %]", "over logistic regression", "validation", "calibration error", "took")
IN_TERMINAL = ("test accuracy [95 %]", "over logistic regression", "took")


def cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    """A rung's numbers as texts."""
    against = "–" if row["over_linear"] is None else points(row["over_linear"])
    validation = "–" if row["validation"] is None else f"{100 * row['validation']:.1f} %"
    return (
        share(row),
        against,
        validation,
        f"{100 * row['calibration_error_calibrated']:.1f} %",
        in_words(row["seconds"]),
    )


def markdown(verdict: Mapping[str, Any]) -> str:
    """The whole verdict as a page of Markdown. Names are escaped, so that none acts as markup."""
    said = (against_linear(verdict), outcome(verdict))
    lines = ["# Verdict", "", f"**{escape.markdown(headline(verdict))}**", ""]
    lines += [line for sentence in said for line in (escape.markdown(sentence), "")]
    lines += [line for warning in verdict["warnings"] for line in (f"> **Note:** {escape.markdown(warning)}", "")]
    measured = f"Measured on {verdict['pictures']:,} pictures: {escape.markdown(verdict['measured_on'])}."
    lines += ["## The ladder", "", f"{measured} {CHOSEN_BY}", ""]
    lines += [*table(HEADER, [[row["title"], *cells(row)] for row in verdict["ladder"]]), ""]
    lines += [f"- {escape.markdown(sentence)}" for sentence in (*details(verdict), *left_out(verdict))]
    lines += ["", "## What would help", "", *(f"- {escape.markdown(advice)}" for advice in verdict["advice"]), ""]
    lines += ["## Worst classes", "", *_worst(verdict["worst_classes"]), ""]
    lines += [
        "## Least sure",
        "",
        "Held-out pictures that the model is least sure of; `least_sure.csv` has more:",
        "",
        *_pictures(verdict["least_sure"]),
    ]
    lines += ["", "## What to label next", "", *_label_next(verdict["label_next"]), ""]
    lines += ["## Labels that may be wrong", "", *_label_errors(verdict["label_errors"]), ""]
    if verdict["foreign"]:
        lines += ["## Left out as foreign", "", *_foreign(verdict["foreign"]), ""]
    lines += ["## What was chosen, and why", "", *(f"- {escape.markdown(reason)}" for reason in verdict["chosen"]), ""]
    if verdict["remarks"]:
        lines += ["## About the data", "", *(f"- {escape.markdown(remark)}" for remark in verdict["remarks"]), ""]
    return "\n".join(lines)


CHOSEN_BY = (
    f"metapl recommends the first of these that it trained: {'; '.join(TITLES[name] for name in PREFERRED)}. It "
    "recommends another model only if that one was clearly better in validation. Validation uses labelled pictures "
    "that the model was not trained on. They are not test pictures."
)


def details(verdict: Mapping[str, Any]) -> list[str]:
    """How the rungs were made, as far as a rung says so: its settings, its members, its steps."""
    return [
        f"{row['title'][:1].upper()}{row['title'][1:]}: {row['remark']}." for row in verdict["ladder"] if row["remark"]
    ]


def left_out(verdict: Mapping[str, Any]) -> list[str]:
    """Which rungs were left out, and why: a sentence for each reason."""
    reasons: dict[str, list[str]] = {}
    for name, why in (verdict["left_out"] | verdict.get("not_tried", {}) | verdict.get("skipped", {})).items():
        reasons.setdefault(why, []).append(TITLES.get(name, name))
    return [f"Left out: {', '.join(titles)}, because {why}." for why, titles in reasons.items()]


def _label_next(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    if not rows:
        return ["There are no unlabelled pictures to choose from; label more of the worst classes."]
    about = "Unlabelled pictures that differ from each other, those that the model is least sure of first; "
    return [f"{about}`label_next.csv` has more:", "", *_pictures(rows)]


def _label_errors(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    if not rows:
        return ["No label looks wrong."]
    about = "Labelled pictures that models which had not seen them take for another class; many are right but unusual. "
    return [f"{about}`label_errors.csv` has more:", "", *_pictures(rows)]


def _foreign(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    header = ("picture", "labelled ones near it", "class of the nearest", "similarity")
    cells = [
        [row["path"], str(row["labeled_near"]), row["nearest"], f"{row['similarity']:.2f}"] for row in rows[:LISTED]
    ]
    about = f"{len(rows):,} unlabelled pictures were left out: hardly any labelled picture has similar features. "
    return [f"{about}`foreign.csv` lists all; `--no-filter-foreign` keeps them:", "", *table(header, cells)]


def _worst(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    if not rows:
        return ["The model made no mistake on these pictures."]
    header = WORST_HEADER
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


def rows_as_csv(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = COLUMNS) -> bytes:
    """Pictures and what is said of them as a CSV file, in which no spreadsheet takes a name for a formula."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns)
    writer.writeheader()
    for row in rows:
        names = {key: cell(value) for key, value in row.items() if isinstance(value, str)}
        kept = {key: value for key, value in row.items() if key != "row"}
        writer.writerow({**kept, **names, "path": path_cell(Path(row["path"]))})
    return text.getvalue().encode()
