"""`metapl runs`: find the runs below a folder, and the state of each.

Reads a few small files of each run and the end of its metrics, and never imports jax: hundreds of runs take a second.
A file that is missing or broken is named in the run's row, and does not hide the other runs. os.path checks whether
files exist: pathlib raises if a folder may not be entered or a name is too long.
"""

import json
import math
import os
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rich.markup import escape
from rich.table import Table

from metapl.schema import ConfigError
from metapl.system import lock

DEPTH = 4  # how many levels below a folder are searched
_MARKS = ("config.toml", "metrics.jsonl", "result.json")  # a folder with one of them holds, or held, a run
_BLOCK = 1 << 16

State = Literal["finished", "running", "stopped, resumable", "stopped, other version", "failed", "broken"]
CHECKPOINT_FORMAT = 2  # of a checkpoint's note; metapl 0.1.0 wrote 1
Sort = Literal["changed", "name", "accuracy"]

_STYLES: Mapping[State, str] = {
    "finished": "green",
    "running": "cyan",
    "stopped, resumable": "yellow",
    "stopped, other version": "yellow",
    "failed": "red",
    "broken": "red",
}


class Run(NamedTuple):
    """One row of the table; None means that the files do not say."""

    path: Path
    state: State
    method: str | None = None
    data: str | None = None
    steps: int | None = None  # done
    total_steps: int | None = None
    accuracy: float | None = None
    std: float | None = None
    seeds: int | None = None
    changed: float = 0.0  # seconds since 1970
    pid: int | None = None  # the process that works on it
    note: str = ""  # what is wrong with its files, or what to do next


def find_runs(folders: Sequence[Path], sort: Sort = "changed") -> list[Run]:
    """Every run in these folders or below them."""
    for folder in folders:
        if not os.path.isdir(folder):
            raise ConfigError(f"{folder} is not a folder; runs are written to runs/ unless --out says otherwise")
    orders: dict[Sort, Any] = {
        "changed": lambda run: -run.changed,
        "name": lambda run: str(run.path),
        "accuracy": lambda run: -(run.accuracy if run.accuracy is not None else -1.0),
    }
    return sorted(map(read_run, below(folders)), key=orders[sort])


def below(folders: Iterable[Path]) -> list[Path]:
    """The folders of runs in these folders or below them, each once."""
    return list({path.resolve(): path for folder in folders for path in _below(folder, DEPTH)}.values())


def _below(folder: Path, depth: int) -> Iterator[Path]:
    """Yield the folders of runs; folders inside a run are not searched, and links are not followed."""
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


def read_run(path: Path) -> Run:
    """Read the state of one run."""
    wrong: list[str] = []
    config = _read(path / "config.toml", tomllib.loads, wrong)
    result = _read(path / "result.json", json.loads, wrong) if os.path.exists(path / "result.json") else {}
    environment = _read(path / "environment.json", json.loads, [])  # optional
    last = last_line(path / "metrics.jsonl")
    stages = [stage for stage in _list(config.get("stages")) if isinstance(stage, dict)]
    pid = lock.holder(path / lock.FILE)
    state, hint = _state(path, bool(wrong), bool(result), pid)
    groups_before, groups = _groups(environment, last)
    steps_of_group = sum(steps for stage in stages if isinstance(steps := stage.get("steps"), int))
    total, done = steps_of_group * groups or None, _done(stages, last)
    return Run(
        path=path,
        state=state,
        method=" → ".join(str(_dict(stage.get("method")).get("name", "?")) for stage in stages) or None,
        data=_data(_dict(config.get("data"))),
        steps=total if result else None if done is None else steps_of_group * groups_before + done,
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
    if warning.get("level") == "stop":  # a resumed run would be stopped again
        return "failed", f"stopped by the guard {warning.get('guard')}: {path.name}/warnings.jsonl says why"
    names = _names(path / "checkpoints")
    if checkpoints := [name for name in names if name.startswith("step-")]:
        if _is_of_another_version(path / "checkpoints" / max(checkpoints)):
            version = _read(path / "environment.json", json.loads, []).get("metapl", "another version")
            return "stopped, other version", f"started by metapl {version}, which can finish it; this version cannot"
        return "stopped, resumable", f"metapl resume {path}"
    if os.path.exists(path / "progress.json") or any(name.startswith("damaged-step-") for name in names):
        return "failed", "no good checkpoint is left"
    if os.path.exists(path / "environment.json"):
        return "stopped, resumable", f"metapl resume {path} (it starts from its beginning: there is no checkpoint)"
    return "failed", "it ended without a result or a checkpoint"


def _is_of_another_version(checkpoint: Path) -> bool:
    """Whether a checkpoint's note has another format; a note that cannot be read is damaged, which resume reports."""
    note = _read(checkpoint / "note.json", json.loads, [])
    return "format" in note and note["format"] != CHECKPOINT_FORMAT


def _groups(environment: Mapping[str, Any], last: Mapping[str, Any]) -> tuple[int, int]:
    """How many groups of seeds are done, as the last line of the metrics tells, and how many there are."""
    seeds, together = _list(environment.get("seeds")), environment.get("seeds_at_once")
    training = _list(last.get("seeds"))
    if not seeds or not isinstance(together, int) or together < 1:
        return 0, 1
    first = seeds.index(training[0]) if training and training[0] in seeds else 0
    return first // together, -(-len(seeds) // together)


def last_line(path: Path) -> dict[str, Any]:
    """The last complete line of a file of JSON lines, read from its end; {} if there is none."""
    try:
        with path.open("rb") as file:
            end, tail = file.seek(0, os.SEEK_END), b""
            while end > 0:  # twice as much each time, so that a very long line is not copied block by block
                start = max(0, end - max(_BLOCK, len(tail)))
                file.seek(start)
                tail, end = file.read(end - start) + tail, start
                for line in reversed(tail.split(b"\n")[1 if start else 0 :]):
                    if (values := _parse(line)) is not None:
                        return values
    except OSError:
        pass
    return {}


def _parse(line: bytes) -> dict[str, Any] | None:
    """The line's values; None if it is empty, incomplete or not a JSON object."""
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


def _done(stages: Sequence[Mapping[str, Any]], last: Mapping[str, Any]) -> int | None:
    """Steps done over all stages, from a line of the metrics; None if it does not say."""
    stage, step = last.get("stage", 0), last.get("step", 0)
    if not isinstance(stage, int) or not isinstance(step, int):
        return None
    return step + sum(steps for before in stages[:stage] if isinstance(steps := before.get("steps"), int))


def _data(data: Mapping[str, Any]) -> str | None:
    """The name of the split if it has one, else the source and the file or folder that it reads."""
    split = data.get("split", "given")
    if split != "given":
        return str(split)
    place = data.get("path") or data.get("file") or ""
    return " ".join(str(word) for word in (data.get("name"), Path(str(place)).name) if word) or None


def _read(path: Path, parse: Any, wrong: list[str]) -> dict[str, Any]:
    """Read a file; problems are added to `wrong`, and {} is returned."""
    try:
        values = parse(path.read_text("utf-8"))
    except FileNotFoundError:
        wrong.append(f"{path.name} is missing")
    except (OSError, ValueError, RecursionError) as error:
        wrong.append(f"{path.name} cannot be read ({error})")
    else:
        if isinstance(values, dict) and values:
            return values
        wrong.append(f"{path.name} is empty or not a table")
    return {}


def _changed(path: Path) -> float:
    """When the run last wrote a file, in seconds since 1970."""
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
    rows = Table(title=f"{len(runs)} run{'s' * (len(runs) != 1)}")
    notes = any(run.note for run in runs)
    for column in ("run", "method", "data", "state"):
        rows.add_column(column, overflow="fold")
    for column in ("steps", "test accuracy (%)", "changed"):
        rows.add_column(column, justify="right")
    if notes:
        rows.add_column("note", overflow="fold")
    for run in runs:
        state = f"[{_STYLES[run.state]}]{run.state}[/]" + (f" (pid {run.pid})" if run.pid else "")
        row = [_plain(str(run.path)), _plain(run.method), _plain(run.data), state, _steps(run), _accuracy(run)]
        rows.add_row(*row, _time(run.changed), *([_plain(run.note)] if notes else []))
    return rows


def _plain(text: str | None) -> str:
    """A cell that rich prints unchanged, even if it has brackets."""
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
