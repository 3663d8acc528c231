"""Answers as a CSV file, as lines of JSON, or as a table for people; each row is written when it is known."""

import csv
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from metapl.predict.answers import Answer, best
from metapl.predict.text import cell, on_a_line, path_cell
from metapl.schema import ConfigError
from metapl.system.disk import move_to_free, reason

WIDEST = 30  # letters of a class in the table
WORTH_SHOWING = 0.01  # other classes that are less probable are left out of the table

Write = Callable[[Answer], None]


@contextmanager
def csv_file(path: Path, class_names: Sequence[str], top_k: int) -> Iterator[Write]:
    """Write a new CSV file, or with - to where the table would go; until it is whole it is called .partial."""
    if str(path) == "-":
        yield _csv_rows(sys.stdout, class_names, top_k)
        return
    if path.exists() or path.is_symlink():
        raise ConfigError(f"--csv {path} is there already and is not overwritten; choose another name")
    partial = path.with_name(f"{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = partial.open("x", newline="", encoding="utf-8")
    except FileExistsError:
        raise ConfigError(f"{partial} is of another prediction, at work or stopped; move it away first") from None
    except OSError as error:
        raise ConfigError(f"--csv {path} cannot be written: {reason(error)}") from None
    with file:
        yield _told(_csv_rows(file, class_names, top_k), path)
    move_to_free(partial, path)


def _told(write: Write, path: Path) -> Write:
    def one(answer: Answer) -> None:
        try:
            write(answer)
        except OSError as error:
            raise ConfigError(f"--csv {path} could not be written further: {reason(error)}") from None

    return one


def _csv_rows(file: TextIO, class_names: Sequence[str], top_k: int) -> Write:
    rows = csv.writer(file, lineterminator="\n")
    others = range(2, min(top_k, len(class_names)) + 1)
    rows.writerow(
        ["path", "class", "class_index", "probability", "error"]
        + [name for i in others for name in (f"class_{i}", f"probability_{i}")]
    )

    def write(answer: Answer) -> None:
        if answer.probabilities is None:
            rows.writerow([path_cell(answer.path), "", "", "", cell(answer.problem)] + ["", ""] * len(others))
            return
        chosen = best(answer.probabilities, top_k)
        pairs = [(cell(class_names[i]), f"{answer.probabilities[i]:.6f}") for i in chosen]
        rest = [value for pair in pairs[1:] for value in pair]
        rows.writerow([path_cell(answer.path), pairs[0][0], chosen[0], pairs[0][1], "", *rest])

    return write


@contextmanager
def json_lines(class_names: Sequence[str], top_k: int) -> Iterator[Write]:
    """Write one JSON object for each picture, each on a line of its own."""

    def write(answer: Answer) -> None:
        said: dict[str, Any] = {"path": str(answer.path)}
        if answer.probabilities is None:
            said["error"] = answer.problem
        else:
            top = [
                {"class": class_names[i], "class_index": i, "probability": round(float(answer.probabilities[i]), 6)}
                for i in best(answer.probabilities, top_k)
            ]
            said |= top[0] | {"top": top}
        sys.stdout.write(json.dumps(said) + "\n")

    yield write


@contextmanager
def table(class_names: Sequence[str], top_k: int) -> Iterator[Write]:
    """Write lines that people read: how probable, which class, which picture, and what else it may be."""
    names = [on_a_line(name) for name in class_names]
    width = min(WIDEST, max(map(len, names)))

    def write(answer: Answer) -> None:
        path = on_a_line(str(answer.path))
        if answer.probabilities is None:
            sys.stdout.write(f"{'':7}  {'–':<{width}}  {path}  {on_a_line(answer.problem)}\n")
            return
        first, *others = best(answer.probabilities, top_k)
        known = [(names[i], answer.probabilities[i]) for i in others if answer.probabilities[i] >= WORTH_SHOWING]
        rest = f"  (then {', '.join(f'{name} {chance:.1%}' for name, chance in known)})" if known else ""
        sys.stdout.write(f"{answer.probabilities[first]:7.1%}  {names[first]:<{width}}  {path}{rest}\n")

    yield write
