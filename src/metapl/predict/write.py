"""Write predictions as a CSV file, as lines of JSON, or as a table for people; each row as soon as it is known."""

import csv
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from metapl.predict.predictions import Prediction, best
from metapl.predict.text import cell, on_a_line, path_cell
from metapl.schema import ConfigError
from metapl.system.disk import move_to_free, reason
from metapl.system.lock import take

COLUMNS = ("path", "class", "class_index", "probability", "error")  # class_2, probability_2, … follow
WIDEST = 30  # letters of a class name in the table
WORTH_SHOWING = 0.01  # the table leaves out further classes that are less probable

Write = Callable[[Prediction], None]


@contextmanager
def csv_file(path: Path, class_names: Sequence[str], top_k: int) -> Iterator[Write]:
    """Write a new CSV file, or to the standard output if `path` is -. Until it is complete it is called .partial."""
    if str(path) == "-":
        yield _csv_rows(sys.stdout, class_names, top_k)
        return
    if path.exists() or path.is_symlink():
        raise ConfigError(f"--csv {path} already exists and is not overwritten; choose another name")
    partial = path.with_name(f"{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = partial.open("a+", newline="", encoding="utf-8", errors="replace")
    except OSError as error:
        raise ConfigError(f"--csv {path} cannot be written: {reason(error)}") from None
    with file:
        _begin_again(file, partial, path)
        yield _naming_the_file(_csv_rows(file, class_names, top_k), path)
        file.flush()
        move_to_free(partial, path)  # while the file is locked: nobody else begins it again


def _begin_again(file: TextIO, partial: Path, path: Path) -> None:
    """Empty an unfinished file that a killed prediction has left; refuse any other."""
    if not take(file):
        raise ConfigError(f"another prediction is writing {partial}; wait until it ends, or choose another name")
    if path.exists():
        raise ConfigError(f"--csv {path} already exists and is not overwritten; choose another name")
    file.seek(0)
    header = ",".join(COLUMNS)
    if not header.startswith(file.read(len(header))):
        raise ConfigError(f"{partial} exists and is not an unfinished prediction; move it, or choose another name")
    file.truncate(0)


def _naming_the_file(write: Write, path: Path) -> Write:
    """Turn an OSError of `write` into a ConfigError that names the file."""

    def write_one(prediction: Prediction) -> None:
        try:
            write(prediction)
        except OSError as error:
            raise ConfigError(f"--csv {path} could not be written completely: {reason(error)}") from None

    return write_one


def _csv_rows(file: TextIO, class_names: Sequence[str], top_k: int) -> Write:
    rows = csv.writer(file, lineterminator="\n")
    further = range(2, min(top_k, len(class_names)) + 1)
    rows.writerow([*COLUMNS, *(name for i in further for name in (f"class_{i}", f"probability_{i}"))])

    def write(prediction: Prediction) -> None:
        if prediction.probabilities is None:
            rows.writerow([path_cell(prediction.path), "", "", "", cell(prediction.problem)] + ["", ""] * len(further))
            return
        chosen = best(prediction.probabilities, top_k)
        pairs = [(cell(class_names[i]), f"{prediction.probabilities[i]:.6f}") for i in chosen]
        rest = [value for pair in pairs[1:] for value in pair]
        rows.writerow([path_cell(prediction.path), pairs[0][0], chosen[0], pairs[0][1], "", *rest])

    return write


@contextmanager
def json_lines(class_names: Sequence[str], top_k: int) -> Iterator[Write]:
    """Write one JSON object for each picture, on its own line."""

    def write(prediction: Prediction) -> None:
        row: dict[str, Any] = {"path": str(prediction.path)}
        if prediction.probabilities is None:
            row["error"] = prediction.problem
        else:
            top = [
                {"class": class_names[i], "class_index": i, "probability": round(float(prediction.probabilities[i]), 6)}
                for i in best(prediction.probabilities, top_k)
            ]
            row |= top[0] | {"top": top}
        sys.stdout.write(json.dumps(row) + "\n")

    yield write


@contextmanager
def table(class_names: Sequence[str], top_k: int) -> Iterator[Write]:
    """Write a line for each picture: the probability, the class, the path, and the next classes."""
    names = [on_a_line(name) for name in class_names]
    width = min(WIDEST, max(map(len, names)))

    def write(prediction: Prediction) -> None:
        path = on_a_line(str(prediction.path))
        if prediction.probabilities is None:
            sys.stdout.write(f"{'':7}  {'–':<{width}}  {path}  {on_a_line(prediction.problem)}\n")
            return
        first, *further = best(prediction.probabilities, top_k)
        shown = [
            (names[i], prediction.probabilities[i]) for i in further if prediction.probabilities[i] >= WORTH_SHOWING
        ]
        rest = f"  (then {', '.join(f'{name} {probability:.1%}' for name, probability in shown)})" if shown else ""
        sys.stdout.write(f"{prediction.probabilities[first]:7.1%}  {names[first]:<{width}}  {path}{rest}\n")

    yield write
