"""`metapl pseudo-label`: a run's probabilities for a folder of unlabelled pictures, as `metapl data select` reads them.

NAME.npy is float16 [N, classes], a row for each picture in the order of `metapl data check`; NAME.txt has a line with
each picture's path. A picture that cannot be read has a row of zeros, which is never selected, and a line in
NAME.errors.csv. While it grows, the array is called .npy.partial, and NAME.npy.json tells how many rows are done: the
same command goes on from there, and after a crash as well. Files of another run or of other pictures are never touched.
"""

import csv
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import jax
import numpy as np
import tyro

from metapl.cli.flags import parse
from metapl.data.reading.find_pictures import FoundPicture, walk
from metapl.data.reading.read_ahead import read_ahead
from metapl.data.sources import folder
from metapl.data.sources.source import Files
from metapl.data.splits.manifest import bytes_of_images
from metapl.evaluate import predictor
from metapl.evaluate.predictor import Predictor
from metapl.predict.answers import BATCHES_AHEAD, Answer, answer_batch
from metapl.predict.progress import counting
from metapl.predict.text import on_a_line, path_cell
from metapl.schema import ConfigError, to_dict, validate
from metapl.system import runtime
from metapl.system.disk import give_name, reason, write_atomically
from metapl.system.terminal import Terminal, sayer

Tell = Callable[[str], None]
Advance = Callable[[int], None]
Problems = dict[int, str]  # row -> why the picture could not be read


@dataclass(frozen=True)
class PseudoLabelFlags:
    """Which run predicts, which pictures, and where the probabilities go."""

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of a finished run, or of metapl fit."""
    pictures: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
    """The folder of pictures; of a folder with labeled/ and unlabeled/ in it, unlabeled/ is read."""
    out: Path = Path("probabilities.npy")
    """The file to write, whose name ends with .npy; the same command continues an unfinished one."""
    seed: int | None = None
    """Which seed's weights, if the run has several. Default: the first."""

    def check(self) -> None:
        """Check the name of the file."""
        if self.out.suffix != ".npy":
            raise ValueError(f"out takes a name that ends with .npy, got {self.out}")


class Place(NamedTuple):
    """The files of one array."""

    array: Path
    partial: Path
    note: Path
    names: Path
    errors: Path


def place_of(out: Path) -> Place:
    """Name the files beside an array."""
    note, partial = out.with_name(f"{out.name}.json"), out.with_name(f"{out.name}.partial")
    return Place(out, partial, note, out.with_suffix(".txt"), out.with_suffix(".errors.csv"))


def pseudo_label(args: Sequence[str]) -> None:
    """Write a run's probabilities for a folder of pictures.

    RUN is the folder of a finished run, or of metapl fit; DIR holds pictures at any depth. Writes a .npy of float16
    [pictures, classes], a .txt with the path of each row, and, if pictures could not be read, a .errors.csv; their rows
    are zeros. The same command continues if it was stopped or killed. Other files are never overwritten. metapl data
    select reads the files.

    Examples:
      metapl pseudo-label runs/mine unlabeled --out probabilities.npy
      metapl data select probabilities.npy --names probabilities.txt --per-class 500 --threshold 0.3
    """
    flags = parse(PseudoLabelFlags, "metapl pseudo-label", pseudo_label, args)
    validate(flags)
    tell = sayer(Terminal())
    runtime.start()
    loaded = predictor.load(flags.run, flags.seed)
    loaded.check_takes_pictures()
    paths = pictures_of(flags.pictures, tell)
    try:
        with counting() as advance:
            bad = label(loaded, paths, place_of(flags.out), tell, advance)
    except OSError as error:
        raise ConfigError(f"--out {flags.out} could not be written: {reason(error)}") from None
    names = place_of(flags.out).names
    failed = f"; {bad:,} could not be read ({place_of(flags.out).errors})" if bad else ""
    tell(f"{flags.out} has the probabilities of {len(paths) - bad:,} pictures{failed}")
    tell(f"next: metapl data select {flags.out} --names {names}")


def pictures_of(place: Path, tell: Tell) -> list[Path]:
    """List the pictures of a folder, in the order in which `metapl data check` has them."""
    if not place.is_dir():
        raise ConfigError(f"{place} is not a folder of pictures")
    usual = folder.Folder()
    if (place / usual.labeled).is_dir() and (place / usual.unlabeled).is_dir():
        place = place / usual.unlabeled
        tell(f"taking {place}")
    found = list(walk(place))
    for one in found:
        if one.problem:
            raise ConfigError(f"{one.path} cannot be read: {one.problem}")
    if not found:
        raise ConfigError(f"{place} has no pictures in it or below it")
    return [one.path for one in found]


def label(loaded: Predictor, paths: Sequence[Path], place: Place, tell: Tell, advance: Advance) -> int:
    """Fill the file from where it was left, and give it its name; how many pictures could not be read."""
    origin = origin_of(loaded, paths)
    done, bad = noted(place, origin)
    if place.array.exists():
        tell(f"{place.array} is there and whole: nothing to do")
        return len(bad)
    if done:
        tell(f"going on from picture {done:,} of {len(paths):,}")
        advance(done)
    else:
        place.array.parent.mkdir(parents=True, exist_ok=True)
        note(place, origin, 0, {})
    rows = _rows(place.partial, (len(paths), len(loaded.class_names)), new=not done)
    for start, answers in _batches(loaded, paths, done):
        for row, one in enumerate(answers, start):
            rows[row] = 0 if one.probabilities is None else one.probabilities
            if one.probabilities is None:
                bad[row] = one.problem
        rows.flush()  # rows first, then the note that they are there: a crash between the two costs one batch
        note(place, origin, start + len(answers), bad)
        advance(len(answers))
    write_atomically(place.names, "".join(f"{on_a_line(str(path))}\n" for path in paths).encode())
    if bad:
        _write_errors(place.errors, paths, bad)
    give_name(place.partial, place.array)
    return len(bad)


def _batches(loaded: Predictor, paths: Sequence[Path], first: int) -> Iterator[tuple[int, list[Answer]]]:
    """Answers from a row on, a batch at a time, each with the row that it begins with."""
    size, places = loaded.batch_size(), map(FoundPicture, paths[first:])
    with closing(read_ahead(places, loaded.read, runtime.cores(), BATCHES_AHEAD * size)) as pictures:
        while some := tuple(islice(pictures, size)):
            yield first, list(answer_batch(loaded, some))
            first += len(some)


def origin_of(loaded: Predictor, paths: Sequence[Path]) -> dict[str, Any]:
    """All that the answers are a function of, as a note that two equal files share."""
    weights, asked = hashlib.sha256(), hashlib.sha256()
    for where, leaf in jax.tree_util.tree_leaves_with_path(loaded.weights):
        weights.update(f"{jax.tree_util.keystr(where)} {leaf.dtype} {leaf.shape}\n".encode())
        weights.update(np.ascontiguousarray(leaf).data)
    for block in bytes_of_images(Files(tuple(paths))):
        asked.update(block)
    return {
        "classes": list(loaded.class_names),
        "model": to_dict(loaded.config.stage_models[-1]),
        "view": to_dict(loaded.config.augmentation),
        "temperature": loaded.temperature,
        "weights_sha256": weights.hexdigest(),
        "pictures_sha256": asked.hexdigest(),
        "rows": len(paths),
    }


def note(place: Place, origin: dict[str, Any], done: int, bad: Problems) -> None:
    """Say whose answers the array holds, and how many."""
    write_atomically(place.note, (json.dumps({**origin, "done": done, "unreadable": bad}, indent=2) + "\n").encode())


def noted(place: Place, origin: dict[str, Any]) -> tuple[int, Problems]:
    """How much is done of the array that we would make; nothing if none of its files is there."""
    there = [file for file in place if file.exists()]
    if not there:
        return 0, {}
    try:
        found = json.loads(place.note.read_text("utf-8"))
        done, bad = int(found.pop("done")), {int(row): str(why) for row, why in found.pop("unreadable").items()}
        same = found == json.loads(json.dumps(origin)) and 0 <= done <= origin["rows"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise ConfigError(
            f"{there[0]} is there, and nothing says whose answers it holds; move it away, or choose another --out"
        ) from None
    if not same:
        raise ConfigError(
            f"{there[0]} is of another run or about other pictures; move it away, or choose another --out"
        )
    return done, bad


def _rows(partial: Path, shape: tuple[int, int], new: bool) -> "np.memmap[Any, np.dtype[np.float16]]":
    """The array on the disk, mapped into memory."""
    if new:
        rows = np.lib.format.open_memmap(partial, "w+", np.float16, shape)
        with partial.open("r+b") as file:  # without room for it, a page that cannot be written would kill the process
            os.posix_fallocate(file.fileno(), 0, partial.stat().st_size)
        return rows
    try:
        found = np.load(partial, mmap_mode="r+", allow_pickle=False)
    except ValueError:
        found = None
    if not isinstance(found, np.memmap) or found.shape != shape or found.dtype != np.float16:
        raise ConfigError(f"{partial} is damaged; move it and its .json away, and the answers are made anew")
    return found


def _write_errors(file: Path, paths: Sequence[Path], bad: Problems) -> None:
    with file.open("w", newline="", encoding="utf-8") as opened:
        rows = csv.writer(opened, lineterminator="\n")
        rows.writerow(["row", "path", "error"])
        rows.writerows([row, path_cell(paths[row]), why] for row, why in sorted(bad.items()))
