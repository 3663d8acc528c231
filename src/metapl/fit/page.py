"""The page of a fit, report.html: one file that needs no network. It shows what a person wants to see at the end."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import metapl
from metapl.fit import after, report
from metapl.fit.clock import in_words
from metapl.fit.encoded import Encoded
from metapl.report import html
from metapl.report.bars import Bar, Span, bars, spans
from metapl.report.blocks import Block, Cell, Gallery, GalleryPicture, Heading, Table, Text
from metapl.report.heat_map import heat_map
from metapl.report.large_matrix import large_matrix
from metapl.report.small_pictures import as_data, example
from metapl.report.svg import Line, line_chart

PAGE = "report.html"
MOST_IN_MAP = 20  # classes; with more, the cells of a heat map with numbers would be too small
SHOWN = 20  # pictures in a gallery
MARK = "→"  # of the recommended model, as on the terminal


def page(verdict: Mapping[str, Any], encoded: Encoded) -> str:
    """The page as HTML; all texts are escaped."""
    return html.page("Verdict", blocks(verdict, encoded))


def blocks(verdict: Mapping[str, Any], encoded: Encoded) -> list[Block]:
    """The parts of the page, from the verdict to the details."""
    return [
        *summary(verdict),
        *ladder(verdict),
        *curve(verdict),
        *rounds(verdict),
        *mistakes(verdict),
        *galleries(verdict, encoded),
        *about_data(verdict),
    ]


def summary(verdict: Mapping[str, Any]) -> list[Block]:
    """The verdict in words."""
    measured = f"Measured on {verdict['pictures']:,} pictures: {verdict['measured_on']}."
    state = "" if verdict["finished"] else " The fit was stopped: the same command continues it."
    return [
        Text(report.headline(verdict)),
        Text(report.against_linear(verdict)),
        Text(report.outcome(verdict)),
        *(Text(warning, "warning") for warning in verdict["warnings"]),
        Text(f"{measured} Made by metapl {metapl.__version__} in {in_words(verdict['seconds'])}.{state}", "note"),
        Text("metapl predict, serve and export use the model if they are given this page's folder.", "note"),
    ]


def ladder(verdict: Mapping[str, Any]) -> list[Block]:
    """Every rung's accuracy and cost, and its difference to scikit-learn's answer."""
    rows = verdict["ladder"]
    shown = [Bar(_named(row, verdict), 100 * row["accuracy"], 0.0, f"{100 * row['accuracy']:.1f} %",
                 (100 * row["low"], 100 * row["high"])) for row in rows]  # fmt: skip
    figures: list[Block] = [
        bars(
            "Test accuracy of each model (%)",
            f"{MARK}: recommended. With 95 % intervals. {report.CHOSEN_BY}",
            shown,
            100.0,
        )
    ]
    others = [row for row in rows if row["over_linear"]]
    if others:
        differences = [
            Span(
                row["title"],
                "minus logistic regression",
                *(100 * row["over_linear"][key] for key in ("difference", "low", "high")),
            )
            for row in others
        ]
        about = "On the same test pictures, with 95 % intervals (Agresti and Min)."
        figures.append(spans("Difference to scikit-learn's answer (points)", about, differences))
    table = Table("The ladder", report.HEADER, [[Cell(_named(row, verdict)), *_cells(row)] for row in rows])
    first = Text("A ladder of models, the cheapest first. All are measured on the same test pictures.", "note")
    notes = [Text(sentence, "note") for sentence in (*report.details(verdict), *report.left_out(verdict))]
    return [Heading("The models that were tried"), first, *figures, table, *notes]


def _named(row: Mapping[str, Any], verdict: Mapping[str, Any]) -> str:
    return f"{MARK} {row['title']}" if row["name"] == verdict["recommended"] else row["title"]


def _cells(row: Mapping[str, Any]) -> list[Cell]:
    values = (row["accuracy"], (row["over_linear"] or {}).get("difference", 0.0), row["validation"] or 0.0,
              row["calibration_error_calibrated"], row["seconds"])  # fmt: skip
    return [Cell(text, float(value)) for text, value in zip(report.cells(row), values, strict=True)]


def curve(verdict: Mapping[str, Any]) -> list[Block]:
    """Accuracy over the number of labels, and what would help."""
    advice: list[Block] = [Text(sentence) for sentence in verdict["advice"]]
    measured = verdict["curve"]
    if not measured or len(measured["labels"]) < 2:
        return [Heading("What would help"), *advice]
    sizes = np.array(measured["labels"], float)
    middle, low, high = (100 * np.array(measured[key]) for key in ("accuracy", "low", "high"))
    lines = [Line("logistic regression", sizes, middle, low, high, dots=True)]
    best = next(row for row in verdict["ladder"] if row["name"] == verdict["recommended"])
    if best["name"] != verdict["ladder"][0]["name"]:
        lines.append(Line(best["title"], sizes[-1:], np.array([100 * best["accuracy"]]), dots=True))
    if measured["gain"] is not None:
        reach = np.array([sizes[-1], sizes[-1] + measured["more"]])
        last = 100 * measured["accuracy"][-1]
        lines.append(Line("its straight continuation", reach, np.array([last, last + 100 * measured["gain"]])))
    about = "Means over random parts of the labels; the bars go from the smallest to the largest value. " + " ".join(
        f"{size:.0f} labels: {value:.1f} %." for size, value in zip(sizes, lines[0].middle, strict=True)
    )
    figure = line_chart("Test accuracy over the number of labels", about, lines, ("labels", "%"), log_x=True)
    return [Heading("What would help"), figure, *advice]


def rounds(verdict: Mapping[str, Any]) -> list[Block]:
    """Accuracy over the rounds of labelling, if there were several."""
    if not verdict["history"]:
        return []
    points = [*verdict["history"], after.summary(dict(verdict))]
    labels = np.array([point["labels"] for point in points], float)
    middle, low, high = (100 * np.array([point[key] for point in points]) for key in ("accuracy", "low", "high"))
    about = "The recommended model of each fit, with 95 % intervals. " + " ".join(
        f"{point['labels']:,} labels: {100 * point['accuracy']:.1f} % ({point['title']})." for point in points
    )
    line = Line("recommended model", labels, middle, low, high, dots=True)
    return [line_chart("Test accuracy over rounds of labelling", about, [line], ("labels", "%"))]


def mistakes(verdict: Mapping[str, Any]) -> list[Block]:
    """The confusion matrix and the worst classes."""
    names, counts = verdict["class_names"], np.array(verdict["confusion"], np.int64)
    draw = large_matrix if len(names) > MOST_IN_MAP else heat_map
    figure = draw("Confusion matrix of the test pictures", f"Of {verdict['title']}.", counts, names)
    rows = [
        [
            Cell(row["class"]),
            Cell(report.share(row), row["accuracy"]),
            Cell(str(row["pictures"]), float(row["pictures"])),
            Cell(row["taken_for"]),
            Cell(str(row["labeled"]), float(row["labeled"])),
        ]
        for row in verdict["worst_classes"]
    ]
    title = "The worst classes" if rows else "No mistake on these pictures"
    return [Heading("Where it is wrong"), figure, Table(title, report.WORST_HEADER, rows)]


def galleries(verdict: Mapping[str, Any], encoded: Encoded) -> list[Block]:
    """Pictures that the model is least sure of, and those to label next."""
    sure = _gallery(
        "Least sure", "Test pictures that the model is least sure of: label → the two classes that it thinks most "
        "probable.", verdict["least_sure"], "test", np.arange(len(encoded.test_labels)), encoded,
    )  # fmt: skip
    following = _gallery(
        "Label these next", "Unlabelled pictures that differ from each other, those that the model is least sure of "
        "first; label_next.csv lists more.", verdict["label_next"],
        "unlabeled", encoded.judged_pictures, encoded,
    )  # fmt: skip
    wrong = _gallery(
        "Labels that may be wrong", "Labelled pictures that models which had not seen them take for another class: "
        "label, then that class, then the label's own probability. Look at them; many are right but unusual. "
        "label_errors.csv lists more.", verdict["label_errors"], "labeled", np.arange(len(encoded.labels)), encoded,
    )  # fmt: skip
    foreign = _gallery(
        "Left out as foreign", "Unlabelled pictures whose features are like those of hardly any labelled picture, the "
        "strangest first: class of the nearest labelled picture, and its similarity. They were not learnt from; "
        "foreign.csv lists all. --no-filter-foreign keeps them.", verdict["foreign"],
        "unlabeled", range(len(encoded.prepared.pictures.images("unlabeled"))), encoded,
    )  # fmt: skip
    return [Heading("Pictures"), *sure, *following, *wrong, *foreign]


def _gallery(
    title: str, about: str, rows: Sequence[Mapping[str, Any]], role: str, places: Any, encoded: Encoded
) -> list[Block]:
    """Pictures with captions; `places` turns a row of the predictions into one of the role's pictures."""
    if not rows:
        return []
    pictures = [
        GalleryPicture(as_data(example(encoded.prepared.examples[role], int(places[row["row"]]))), _caption(row))
        for row in rows[:SHOWN]
    ]
    return [Gallery(title, about, pictures)]


def _caption(row: Mapping[str, Any]) -> str:
    if "similarity" in row:
        return f"{row['nearest']} {row['similarity']:.2f}"
    label = f"{row['label']} → " if "label" in row else ""
    return f"{label}{row['prediction']} {row['probability']:.0%}, {row['second']} {row['second_probability']:.0%}"


def about_data(verdict: Mapping[str, Any]) -> list[Block]:
    """What was chosen, and remarks about the data."""
    said = [*verdict["chosen"], *verdict["remarks"]]
    return [Heading("About the data"), *(Text(sentence, "note") for sentence in said)]
