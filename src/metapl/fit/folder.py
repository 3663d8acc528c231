"""The folder of a fit: the names of its files, reading and writing them, and whether a request continues it."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np

from metapl.fit.choose import DataSummary
from metapl.fit.listing import GOES_ON
from metapl.fit.request import Request
from metapl.schema import ConfigError, to_dict
from metapl.start_from.find import absolute
from metapl.system.disk import UNFINISHED, explaining_disk_errors, write_atomically
from metapl.system.folders import next_free

REQUEST, DATA, PLAN, VERDICT, MODEL = "fit.json", "data.json", "plan.json", "verdict.json", "model.json"
LEFT_BY_A_KILL = (REQUEST + UNFINISHED,)  # the only file of a fit that was killed while it wrote its first one
FORMAT = 1


def usual_folder(data: str, request: Request) -> Path:
    """The folder if the user names none: an unfinished one of the same command, or a new one."""
    first = Path("runs/fit")
    for out in (first, *sorted(first.parent.glob(f"{first.name}-[0-9]*"))):
        if (out / REQUEST).is_file() and not (out / MODEL).exists() and not _changes(out, data, request):
            return out
    return next_free(first, LEFT_BY_A_KILL)


def write_request(out: Path, data: str, request: Request) -> None:
    """Write fit.json."""
    write_json(out / REQUEST, {"format": FORMAT, **comparable(data, request)})


def check_request(out: Path, data: str, request: Request) -> None:
    """Refuse to continue a fit with other settings than it began with."""
    if changes := _changes(out, data, request):
        raise ConfigError(
            f"--out {out} was begun with other settings ({'; '.join(changes)}); give the same ones to continue it, "
            "or choose another folder"
        )


def _changes(out: Path, data: str, request: Request) -> list[str]:
    before, now = read_json(out / REQUEST), comparable(data, request)
    return [
        f"{name} was {before.get(name)!r}, is {value!r}" for name, value in now.items() if before.get(name) != value
    ]


def comparable(data: str, request: Request) -> dict[str, Any]:
    """The data and the request with absolute paths, as fit.json has them."""
    place = str(Path(data).expanduser().absolute())
    return {"data": place, **to_dict(dataclasses.replace(request, init_from=absolute(request.init_from)))}


def summary(facts: dict[str, Any]) -> DataSummary:
    """What data.json says about the pictures; version 0.1.0 called the counts train_counts."""
    counts = facts["labeled_counts"] if "labeled_counts" in facts else facts["train_counts"]
    return DataSummary(facts["side"], np.array(counts, np.int64), facts["unlabeled"])


def read_json(path: Path) -> dict[str, Any]:
    """Read a file of the folder; ConfigError if it is damaged."""
    try:
        return dict(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}; begin again in another folder") from None


def write_json(path: Path, value: Any) -> None:
    """Write a file of the folder, completely or not at all."""
    with explaining_disk_errors(path.parent, GOES_ON):
        write_atomically(path, (json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode())
