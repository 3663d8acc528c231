"""labels.csv: what a person decided about pictures, one line for each click; lines are added, never changed.

path,label,decision
/photos/1.jpg,cat,label
/photos/2.jpg,,none_of_these        it shows none of the classes
/photos/1.jpg,,undo                 the decisions about this picture so far do not count
"""

import csv
import errno
import io
import os
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from metapl.schema import ConfigError

FILE = "labels.csv"
COLUMNS = ("path", "label", "decision")
NAMES = "surrogateescape"  # names of files may be any bytes; Python reads them so
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
    try:
        text = io.StringIO(_whole_lines(path).decode("utf-8", NAMES), newline="")
        return [{key or "": value or "" for key, value in row.items()} for row in csv.DictReader(text)]
    except (OSError, UnicodeDecodeError, csv.Error, AttributeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None


def _whole_lines(path: Path) -> bytes:
    """The file without a last line that a crash has cut off: the page never said that it was saved."""
    content, header = path.read_bytes() if path.exists() else b"", ",".join(COLUMNS).encode()
    if header.startswith(content):
        return b""
    start = content.rfind(b"\n") + 1
    last = content[start:].decode("utf-8", "replace").split(",")
    is_cut_off = len(last) < len(COLUMNS) or last[-1] not in get_args(Choice)
    return content[:start] if is_cut_off and content[:start].startswith(header) else content


def add(path: Path, picture: str, decision: Decision) -> None:
    """Add one line, and make sure that it is on the disk; if that fails, the file is as before."""
    whole = _whole_lines(path)
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    if not whole:
        writer.writerow(COLUMNS)
    elif not whole.endswith(b"\n"):  # an editor has left the last line's end out
        text.write("\r\n")
    writer.writerow([picture, decision.label, decision.choice])
    with path.open("ab", buffering=0) as file:
        file.truncate(len(whole))
        try:
            data = text.getvalue().encode("utf-8", NAMES)
            if file.write(data) != len(data):  # a disk that is nearly full writes a part
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
            os.fsync(file.fileno())
        except OSError:
            file.truncate(len(whole))
            raise
