"""Begin after another fit: with the labels that a person has given since, measured on the same pictures.

`metapl label RUN` writes RUN/labels.csv. `metapl fit DATA --after RUN` moves these pictures to the labelled ones, and
leaves out those that show none of the classes. If the first fit held labelled pictures out to measure itself, the next
one holds out the same ones, so that the accuracies of both can be compared.
"""

import csv
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.data.audit.wording import counted
from metapl.data.sources.source import InMemory, Part, Source
from metapl.data.splits.select import join, take
from metapl.fit import label_file
from metapl.fit.folder import REQUEST, VERDICT, explaining_damage, read_json
from metapl.fit.label_file import Decision
from metapl.fit.listing import LIST
from metapl.schema import ConfigError


class FitBefore(NamedTuple):
    """What the next fit takes from the one before."""

    decisions: dict[str, Decision]  # by absolute path
    held_out: frozenset[str]  # absolute paths of its test pictures
    history: list[dict[str, Any]]  # labels and accuracy of every fit so far


def read(folder: Path) -> FitBefore:
    """Read the fit before; ConfigError if it has no verdict, or if no picture was labelled since."""
    if not (folder / REQUEST).is_file() or not (folder / VERDICT).is_file():
        raise ConfigError(f"--after {folder} is not the folder of a metapl fit with a verdict")
    decisions = label_file.read(folder / label_file.FILE)
    if not decisions:
        raise ConfigError(f"{folder} has no new labels: label some pictures first, with metapl label {folder}")
    with explaining_damage(folder / VERDICT):
        verdict = read_json(folder / VERDICT)
        history = [*verdict.get("history", []), summary(verdict)]
    return FitBefore(decisions, _held_out(folder / LIST), history)


def summary(verdict: dict[str, Any]) -> dict[str, Any]:
    """One point of the curve over rounds of labelling."""
    best = next(row for row in verdict["ladder"] if row["name"] == verdict["recommended"])
    return {"labels": verdict["labels"], "title": best["title"]} | {
        key: best[key] for key in ("accuracy", "low", "high")
    }


def _held_out(path: Path) -> frozenset[str]:
    if not path.is_file():
        return frozenset()
    with explaining_damage(path), path.open(newline="", encoding="utf-8") as file:
        return frozenset(row["path"] for row in csv.DictReader(file) if row["split"] == "test")


def with_labels(source: Source, before: FitBefore) -> tuple[Source, str]:
    """Give the newly labelled pictures their labels; return the source, and a remark about it."""
    unlabeled = source.parts.get("unlabeled")
    if unlabeled is None or isinstance(unlabeled.images, InMemory):
        raise ConfigError("--after needs unlabelled pictures in files: labels are kept by the files' names")
    numbers = {name: number for number, name in enumerate(source.class_names)}
    labels = np.full(len(unlabeled.images), -1, np.int32)
    rest = np.ones(len(unlabeled.images), bool)
    for row in range(len(unlabeled.images)):
        decision = before.decisions.get(absolute(unlabeled, row))
        if decision is None:
            continue
        if decision.choice == "label" and decision.label not in numbers:
            raise ConfigError(f"{label_file.FILE} has a label {decision.label!r}, which is not one of the classes")
        rest[row] = False
        labels[row] = numbers.get(decision.label, -1)
    new = np.flatnonzero(labels >= 0)
    parts = {**source.parts, "labeled": _joined(source.parts["labeled"], unlabeled, new, labels)}
    parts["unlabeled"] = Part(take(unlabeled.images, np.flatnonzero(rest)), unlabeled.labels[rest])
    if not rest.any():
        del parts["unlabeled"]
    foreign = int((~rest).sum()) - len(new)
    return Source(parts, source.class_names), (
        f"labelled since the fit before: {counted(len(new), 'picture')}; left out, because they show none of the "
        f"classes: {counted(foreign, 'picture')}"
    )


def _joined(labeled: Part, unlabeled: Part, rows: NDArray[np.int64], labels: NDArray[np.int32]) -> Part:
    if not len(rows):
        return labeled
    return Part(join([labeled.images, take(unlabeled.images, rows)]), np.concatenate([labeled.labels, labels[rows]]))


def absolute(part: Part, row: int) -> str:
    """A picture's name as the fit's list of pictures has it."""
    return str(Path(part.images.name(row)).absolute())
