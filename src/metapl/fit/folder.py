"""The folder of a fit: the names of its files, reading and writing them, and whether a request continues it."""

import dataclasses
import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

from metapl.fit.duration import seconds
from metapl.fit.listing import GOES_ON
from metapl.fit.request import Request
from metapl.schema import ConfigError, to_dict
from metapl.start_from.find import absolute
from metapl.system.disk import UNFINISHED, explaining_disk_errors, is_refusal, write_atomically
from metapl.system.folders import next_free

REQUEST, DATA, PLAN, VERDICT, MODEL = "fit.json", "data.json", "plan.json", "verdict.json", "model.json"
LEFT_BY_A_KILL = (REQUEST + UNFINISHED,)  # the only file of a fit that was killed while it wrote its first one
FORMAT = 1  # of model.json
_DAMAGE = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, EOFError, RuntimeError, StopIteration,
           BadZipFile, zlib.error)  # fmt: skip
REQUEST_FORMAT = 2  # versions 0.1.0 and 0.2.0 wrote 1: a fit of two runs, finished if it has model.json


def usual_folder(data: str, request: Request) -> Path:
    """The folder if the user names none: an unfinished one of the same command, or a new one."""
    first = Path("runs/fit")
    for out in (first, *sorted(first.parent.glob(f"{first.name}-[0-9]*"))):
        if (out / REQUEST).is_file() and _continues(out, data, request):
            return out
    return next_free(first, LEFT_BY_A_KILL)


def _continues(out: Path, data: str, request: Request) -> bool:
    return not is_old(out) and not is_finished(out, request) and not _changes(out, data, request)


def write_request(out: Path, data: str, request: Request) -> None:
    """Write fit.json."""
    write_json(out / REQUEST, {"format": REQUEST_FORMAT, **comparable(data, request)})


def is_old(out: Path) -> bool:
    """Whether an older version began the fit."""
    return read_json(out / REQUEST).get("format") != REQUEST_FORMAT


def is_finished(out: Path, request: Request) -> bool:
    """Whether the fit in a folder has nothing left to climb within the request's budget."""
    if is_old(out):
        return (out / MODEL).is_file()
    if not (out / VERDICT).is_file():
        return False
    verdict = read_json(out / VERDICT)  # fit.json may have a larger budget already, of a session that was killed
    with explaining_damage(out / VERDICT):
        budget = verdict.get("budget") or read_json(out / REQUEST, "budget")["budget"]
        return bool(verdict.get("finished")) and seconds(request.budget) <= seconds(budget)


def check_request(out: Path, data: str, request: Request) -> None:
    """Refuse to continue a fit of an older version, or with other settings than it began with."""
    if is_old(out):
        raise ConfigError(
            f"--out {out} was started by an older version of metapl, and this one cannot continue it; choose another "
            "folder"
        )
    if changes := _changes(out, data, request):
        raise ConfigError(
            f"--out {out} was started with other settings ({'; '.join(changes)}); give the same ones to continue it, "
            "or choose another folder"
        )


def _changes(out: Path, data: str, request: Request) -> list[str]:
    # A fit that was begun before a flag was added has its default.
    before, now = to_dict(Request()) | read_json(out / REQUEST), comparable(data, request)
    del now["budget"]  # more time may be given later
    return [
        f"{name} was {before.get(name)!r}, is {value!r}" for name, value in now.items() if before.get(name) != value
    ]


def comparable(data: str, request: Request) -> dict[str, Any]:
    """The data and the request with absolute paths, as fit.json has them."""
    place = str(Path(data).expanduser().absolute())
    start, after = absolute(request.init_from), str(Path(request.after).absolute()) if request.after else ""
    return {"data": place, **to_dict(dataclasses.replace(request, init_from=start, after=after))}


def read_json(path: Path, *entries: str) -> dict[str, Any]:
    """Read a file of the folder; ConfigError if it is damaged, or lacks one of the entries."""
    with explaining_damage(path):
        values = dict(json.loads(path.read_text("utf-8")))
        for name in entries:
            values[name]
        return values


@contextmanager
def explaining_damage(path: Path) -> Iterator[None]:
    """Turn what goes wrong with the content of a file of the folder into a ConfigError that names it."""
    try:
        yield
    except ConfigError:
        raise
    except (*_DAMAGE, OSError) as error:
        if isinstance(error, OSError) and (is_refusal(error) or isinstance(error, BrokenPipeError)):
            raise  # not about the content; the terminal may be a full disk, too
        what = f"it has no {error}" if isinstance(error, KeyError) else str(error).partition("\n")[0] or "it is damaged"
        raise ConfigError(f"{path} cannot be read: {what}; start again in another folder") from None


def write_json(path: Path, value: Any) -> None:
    """Write a file of the folder, completely or not at all."""
    with explaining_disk_errors(path.parent, GOES_ON):
        text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        write_atomically(path, text.encode("utf-8", "backslashreplace"))  # names of files may be any bytes
