"""`metapl data select`."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import numpy as np
import tyro
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from metapl.cli.data_folders import folders
from metapl.cli.flags import parse
from metapl.data import open_source
from metapl.data.audit import leave_out, selection
from metapl.data.audit.leave_out import Hashed, HashLookup, LeaveOut
from metapl.data.audit.near import MAX_DISTANCE
from metapl.data.reading import probabilities
from metapl.schema import ConfigError, validate
from metapl.system.folders import all_or_nothing, claim, next_free
from metapl.system.terminal import Terminal, say

T = TypeVar("T")


@dataclass(frozen=True)
class DataSelectFlags:
    """What to select from, by which rules, and where the results go."""

    probabilities: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="PROBABILITIES")]
    """The file of class probabilities."""
    rules: Annotated[selection.Rules, tyro.conf.arg(name="")] = selection.DEFAULT
    names: Path | None = None
    """Text file with one path for each row. Default: the numbers of the rows. A .csv of probabilities has its own."""
    pictures: str | None = None
    """The pictures of the rows: a hashes.npz from metapl data check, or a source."""
    part: str = "unlabeled"
    """Part of --pictures that the rows stand for."""
    leave_out: tuple[str, ...] = ()
    """Sources, or hashes.npz files, whose val and test pictures must not be selected."""
    near: Annotated[int, tyro.conf.arg(metavar="0…7")] = 6
    """Bits of 64 in which the hashes of look-alikes may differ; more than data check's 4, because a leak costs more."""
    data_dir: Path | None = None
    """Where the sources' files are. Default: the user's cache."""
    out: Path | None = None
    """Folder for the results: new or empty. Default: runs/select, or the next free name after it."""


def select(args: Sequence[str]) -> None:
    """Keep the most probable extra unlabelled pictures of each class.

    PROBABILITIES is a .npy or .npz [pictures, classes], or a .csv (path,p0,p1,…), of any length. Writes selection.csv
    (row, path, class, probability, copies), audit.csv, which says why each picture was kept, and summary.json, which
    counts what was left out and why. With --pictures and --leave-out, look-alikes of val and test pictures are left
    out.

    Examples:
      metapl data select probabilities.npy --names paths.txt
      metapl data select probabilities.npy --rank top_class --threshold 0.3 --upsample
      metapl data select probabilities.csv --pictures audits/extra/hashes.npz --leave-out audits/mine/hashes.npz
    """
    flags = parse(DataSelectFlags, "metapl data select", select, args)
    validate(flags.rules)
    shape = probabilities.shape(flags.probabilities)
    _check_names(flags.names, shape.rows)
    left_out = _leave_out(flags, shape.rows)
    out = claim(flags.out or next_free(Path("runs/select")))
    terminal = Terminal()
    with _progress(terminal, "select", shape.rows) as advance:
        chosen = selection.select(flags.probabilities, flags.rules, left_out, advance)
    names = probabilities.names(flags.probabilities, flags.names)
    with all_or_nothing(out) as place:
        selection.write(chosen, names, flags.rules, left_out, place)
    kept = selection.summarize(chosen, flags.rules, left_out)["kept"]
    counts = f"{kept['distinct_pictures']:,} of {chosen.rows:,} pictures, {kept['with_copies']:,} with copies"
    say(terminal, f"Kept {counts}; wrote {out}/selection.csv, audit.csv and summary.json")


def _check_names(names: Path | None, rows: int | None) -> None:
    """Refuse a file of names that does not fit the rows, before the work begins."""
    if names is None:
        return
    if rows is None:
        raise ConfigError("--names is for arrays; a .csv of probabilities has its own names")
    if not names.is_file():
        raise ConfigError(f"--names {names} is not a file")
    with names.open("rb") as file:
        lines = sum(1 for _ in file)
    if lines != rows:
        raise ConfigError(f"--names {names} has {lines:,} lines, but there are {rows:,} rows of probabilities")


def _leave_out(flags: DataSelectFlags, rows: int | None) -> LeaveOut | None:
    """Return what --pictures and --leave-out ask for; None if neither is given."""
    if not 0 <= flags.near <= MAX_DISTANCE:
        raise ConfigError(f"--near takes 0 to {MAX_DISTANCE}, got {flags.near}")
    if not flags.leave_out and flags.pictures is None:
        return None
    if not flags.leave_out or flags.pictures is None:
        raise ConfigError(
            "--pictures and --leave-out belong together: the pictures of the rows, and what to compare them with"
        )
    forbidden = [leave_out.evaluation_hashes(_evaluation(spec, flags.data_dir), spec) for spec in flags.leave_out]
    look = _look(flags.pictures, flags.part, flags.data_dir, rows)
    return LeaveOut(look, np.concatenate(forbidden), flags.near)


def _evaluation(spec: str, data_dir: Path | None) -> dict[str, Hashed]:
    """Return the hashes of val and test, from a hashes.npz or a source."""
    if _is_hashes(spec):
        return leave_out.read(Path(spec))
    return leave_out.evaluation_of(open_source.open_source(spec, folders(data_dir)))


def _look(spec: str, part: str, data_dir: Path | None, rows: int | None) -> HashLookup:
    """Return a function from rows to hashes; there must be as many pictures as rows of probabilities."""
    if _is_hashes(spec):
        hashed = _named_part(leave_out.read(Path(spec)), part, spec)
        count, look = len(hashed.hashes), leave_out.from_hashes(hashed)
    else:
        source = open_source.open_source(spec, folders(data_dir))
        images = _named_part(dict(source.parts), part, spec).images
        count, look = len(images), leave_out.from_images(images)
    if rows is not None and count != rows:
        raise ConfigError(f"{spec} has {count:,} pictures in {part}, but there are {rows:,} rows of probabilities")
    return look


def _named_part(parts: dict[str, T], part: str, spec: str) -> T:
    if part not in parts:
        raise ConfigError(f"{spec} has no part {part!r}; it has {', '.join(parts)}")
    return parts[part]


def _is_hashes(spec: str) -> bool:
    return Path(spec).name.endswith("hashes.npz")


@contextmanager
def _progress(terminal: Terminal, title: str, total: int | None) -> Iterator[Callable[[int], None]]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("rows"))
    with Progress(*columns, TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(), console=terminal) as bar:
        task = bar.add_task(title, total=total)
        yield lambda rows: bar.advance(task, rows)
