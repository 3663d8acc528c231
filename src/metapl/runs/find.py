"""`metapl runs`: which runs lie below a folder, and how each of them stands.

Reads a few small files of each run and the end of its metrics, and never imports jax: hundreds of runs take a second.
A file that is missing or broken is named in the run's row; it never hides the other runs. Whether files are there is
os.path's to say: pathlib raises where a folder may not be entered or a name is too long.
"""

import fcntl
import json
import math
import os
import socket
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rich.markup import escape
from rich.table import Table

from metapl.schema import ConfigError

DEPTH = 4  # how far below a folder runs are looked for
_MARKS = ("config.toml", "metrics.jsonl", "result.json")  # a folder with one of them is, or was, a run's
_BLOCK = 1 << 16

State = Literal["finished", "running", "stopped, resumable", "failed", "broken"]
Sort = Literal["changed", "name", "accuracy"]

_STYLES: Mapping[State, str] = {
    "finished": "green",
    "running": "cyan",
    "stopped, resumable": "yellow",
    "failed": "red",
    "broken": "red",
}


class Run(NamedTuple):
    """One row of the table; None is what the files do not tell."""

    path: Path
    state: State
    method: str | None = None
    data: str | None = None
    steps: int | None = None  # done, of the seeds that trained last
    total_steps: int | None = None
    accuracy: float | None = None
    std: float | None = None
    seeds: int | None = None
    changed: float = 0.0  # seconds since 1970
    pid: int | None = None  # who works on it
    note: str = ""  # what is wrong with its files, or what to do


def find(folders: Sequence[Path], sort: Sort = "changed") -> list[Run]:
    """Every run in these folders or below them."""
    for folder in folders:
        if not os.path.isdir(folder):
            raise ConfigError(f"{folder} is not a folder; runs are written to runs/ unless --out says otherwise")
    orders: dict[Sort, Any] = {
        "changed": lambda run: -run.changed,
        "name": lambda run: str(run.path),
        "accuracy": lambda run: -(run.accuracy if run.accuracy is not None else -1.0),
    }
    return sorted(map(look, below(folders)), key=orders[sort])


def below(folders: Iterable[Path]) -> list[Path]:
    """Where runs are, each once."""
    return list({path.resolve(): path for folder in folders for path in _below(folder, DEPTH)}.values())


def _below(folder: Path, depth: int) -> Iterator[Path]:
    """Folders of runs; what lies inside one is its own business, and links are not followed."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    if any(entry.name in _MARKS for entry in entries):
        yield folder
    elif depth:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
                yield from _below(folder / entry.name, depth - 1)


def look(path: Path) -> Run:
    """How one run stands."""
    wrong: list[str] = []
    config = _read(path / "config.toml", tomllib.loads, wrong)
    result = _read(path / "result.json", json.loads, wrong) if os.path.exists(path / "result.json") else {}
    environment = _read(path / "environment.json", json.loads, [])  # a run without one can still be looked at
    last = last_line(path / "metrics.jsonl")
    stages = [stage for stage in _list(config.get("stages")) if isinstance(stage, dict)]
    pid = holder(path / "lock")
    state, hint = _state(path, bool(wrong), bool(result), pid)
    before, groups = _groups(environment, last)
    one = sum(steps for stage in stages if isinstance(steps := stage.get("steps"), int))
    total, done = one * groups or None, _done(stages, last)
    return Run(
        path=path,
        state=state,
        method=" → ".join(str(_dict(stage.get("method")).get("name", "?")) for stage in stages) or None,
        data=_data(_dict(config.get("data"))),
        steps=total if result else None if done is None else one * before + done,
        total_steps=total,
        accuracy=_number(result.get("accuracy")),
        std=_number(result.get("std")),
        seeds=len(_dict(result.get("accuracies")) or _list(environment.get("seeds"))) or None,
        changed=_changed(path),
        pid=pid,
        note="; ".join([*wrong, *([hint] if hint else [])]),
    )


def _state(path: Path, broken: bool, finished: bool, pid: int | None) -> tuple[State, str]:
    if pid is not None:
        return "running", ""
    if broken:
        return "broken", ""
    if finished:
        return "finished", ""
    warning = last_line(path / "warnings.jsonl")
    if warning.get("level") == "stop":  # it would come to the same place again
        return "failed", f"stopped by the guard {warning.get('guard')}: {path.name}/warnings.jsonl tells why"
    names = _names(path / "checkpoints")
    if any(name.startswith("step-") for name in names):
        return "stopped, resumable", f"metapl resume {path}"
    if os.path.exists(path / "progress.json") or any(name.startswith("damaged-step-") for name in names):
        return "failed", "no good checkpoint is left"
    if os.path.exists(path / "environment.json"):
        return "stopped, resumable", f"metapl resume {path}, from its beginning: it has no checkpoint"
    return "failed", "it ended without a result or a checkpoint"


def _groups(environment: Mapping[str, Any], last: Mapping[str, Any]) -> tuple[int, int]:
    """How many groups of seeds trained to their end before the one of the last line, and how many there are."""
    seeds, together, own = _list(environment.get("seeds")), environment.get("seeds_at_once"), _list(last.get("seeds"))
    if not seeds or not isinstance(together, int) or together < 1:
        return 0, 1
    first = seeds.index(own[0]) if own and own[0] in seeds else 0
    return first // together, -(-len(seeds) // together)


def holder(lock: Path) -> int | None:
    """The process that works on a run: the one that the lock file names, as long as it holds the lock."""
    try:
        with lock.open("rb") as file:
            pid, *elsewhere = file.read(256).decode("utf-8", "replace").split()
            if elsewhere in ([], [socket.gethostname()]) and not _alive(int(pid)):
                return None
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # let go when the file is closed
            return None
    except BlockingIOError:
        return int(pid)
    except (OSError, ValueError):
        return None


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True


def last_line(path: Path) -> dict[str, Any]:
    """The last whole line of a file of JSON lines, read from its end; {} if there is none."""
    try:
        with path.open("rb") as file:
            end, tail = file.seek(0, os.SEEK_END), b""
            while end > 0:  # twice as much each time: a line without an end is not copied block by block
                start = max(0, end - max(_BLOCK, len(tail)))
                file.seek(start)
                tail, end = file.read(end - start) + tail, start
                for line in reversed(tail.split(b"\n")[1 if start else 0 :]):
                    if (found := _parse(line)) is not None:
                        return found
    except OSError:
        pass
    return {}


def _parse(line: bytes) -> dict[str, Any] | None:
    """None for a line that is empty, half written or no JSON."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _done(stages: Sequence[Mapping[str, Any]], last: Mapping[str, Any]) -> int | None:
    """Steps over all stages, from a line of the metrics; None for a line that does not say."""
    stage, step = last.get("stage", 0), last.get("step", 0)
    if not isinstance(stage, int) or not isinstance(step, int):
        return None
    return step + sum(steps for before in stages[:stage] if isinstance(steps := before.get("steps"), int))


def _data(data: Mapping[str, Any]) -> str | None:
    """The split where it has a name, else the source, with the file or folder that it reads."""
    split = data.get("split", "given")
    if split != "given":
        return str(split)
    place = data.get("path") or data.get("file") or ""
    return " ".join(str(word) for word in (data.get("name"), Path(str(place)).name) if word) or None


def _read(path: Path, parse: Any, wrong: list[str]) -> dict[str, Any]:
    """Read a file; what is wrong with it goes to `wrong`, and the rest of the run is looked at all the same."""
    try:
        found = parse(path.read_text("utf-8"))
    except FileNotFoundError:
        wrong.append(f"{path.name} is missing")
    except (OSError, ValueError, RecursionError) as error:
        wrong.append(f"{path.name} cannot be read ({error})")
    else:
        if isinstance(found, dict) and found:
            return found
        wrong.append(f"{path.name} is empty or no table")
    return {}


def _changed(path: Path) -> float:
    """When the run last wrote anything."""
    times = []
    for name in (*_MARKS, "checkpoints", ""):
        try:
            times.append((path / name).stat().st_mtime)
        except OSError:
            continue
    return max(times, default=0.0)


def _names(folder: Path) -> Iterable[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return ()


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _number(value: Any) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if abs(value) <= sys.float_info.max else math.nan


def as_json(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """The rows for programs."""
    return [run._asdict() | {"path": str(run.path), "changed": _utc(run.changed)} for run in runs]


def table(runs: Sequence[Run]) -> Table:
    """The rows for people."""
    found = Table(title=f"{len(runs)} run{'s' * (len(runs) != 1)}")
    notes = any(run.note for run in runs)
    for column in ("run", "method", "data", "state"):
        found.add_column(column, overflow="fold")
    for column in ("steps", "test accuracy (%)", "changed"):
        found.add_column(column, justify="right")
    if notes:
        found.add_column("note", overflow="fold")
    for run in runs:
        state = f"[{_STYLES[run.state]}]{run.state}[/]" + (f" (pid {run.pid})" if run.pid else "")
        row = [_plain(str(run.path)), _plain(run.method), _plain(run.data), state, _steps(run), _accuracy(run)]
        found.add_row(*row, _time(run.changed), *([_plain(run.note)] if notes else []))
    return found


def _plain(text: str | None) -> str:
    """A cell that rich prints as it is, whatever brackets a folder's name has."""
    return escape(text) if text else "–"


def _steps(run: Run) -> str:
    if run.total_steps is None:
        return "–"
    return f"{run.steps:,} of {run.total_steps:,}" if run.steps is not None else f"? of {run.total_steps:,}"


def _accuracy(run: Run) -> str:
    if run.accuracy is None:
        return "–"
    spread = f" ± {100 * run.std:.2f}" if run.std is not None and run.seeds and run.seeds > 1 else ""
    return f"{100 * run.accuracy:.2f}{spread} ({run.seeds})"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M")


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
