"""labels.csv: what a person decided about pictures, one line for each click; lines are added, never changed.

path,label,decision
/photos/1.jpg,cat,label
/photos/2.jpg,,none_of_these        it shows none of the classes
/photos/1.jpg,,undo                 the decisions about this picture so far do not count
"""

import csv
import io
import os
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from metapl.schema import ConfigError

FILE = "labels.csv"
COLUMNS = ("path", "label", "decision")
Choice = Literal["label", "none_of_these", "undo"]


class Decision(NamedTuple):
    """What a person decided about one picture."""

    label: str  # empty unless the choice is `label`
    choice: Choice


def read(path: Path) -> dict[str, Decision]:
    """The decision about each picture that counts: the last one; without those that were undone."""
    decisions: dict[str, Decision] = {}
    for line, row in enumerate(_rows(path), start=2):
        if set(row) != set(COLUMNS) or row["decision"] not in get_args(Choice) or not row["path"]:
            raise ConfigError(f"{path}, line {line}: expected {','.join(COLUMNS)}, with a decision of metapl label")
        decisions.pop(row["path"], None)
        if row["decision"] != "undo":
            decisions[row["path"]] = Decision(row["label"], row["decision"])  # type: ignore[arg-type]
    return decisions


def _rows(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return [{key or "": value or "" for key, value in row.items()} for row in csv.DictReader(file)]
    except (OSError, UnicodeDecodeError, csv.Error, AttributeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None


def add(path: Path, picture: str, decision: Decision) -> None:
    """Add one line, and make sure that it is on the disk."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    if not path.exists() or not path.stat().st_size:
        writer.writerow(COLUMNS)
    elif not path.read_bytes().endswith(b"\n"):  # a line that was cut off by a crash or by hand
        text.write("\r\n")
    writer.writerow([picture, decision.label, decision.choice])
    with path.open("a", newline="", encoding="utf-8") as file:
        file.write(text.getvalue())
        file.flush()
        os.fsync(file.fileno())
