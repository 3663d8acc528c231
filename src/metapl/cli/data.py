"""The verbs of `metapl data`: each reads its flags and calls one function."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import tyro
from annotated_types import Ge
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from metapl.cli.flags import parse
from metapl.schema import ConfigError, validate
from metapl.system.folders import claim, next_free

if TYPE_CHECKING:
    from metapl.augment.views import Augmentation
    from metapl.data.audit.leave_out import Hashed, HashLookup, LeaveOut
    from metapl.data.reading.files import Folders
    from metapl.data.sources.source import Source

T = TypeVar("T")


def check(args: Sequence[str]) -> None:
    """Look for bad files, copies and leaks in a data source.

    Reads every picture once. Lists files that cannot be read, sizes and modes, pictures that are the same or look the
    same inside and across the parts (labeled, unlabeled, val, test, …), and class counts. Writes audit.json, with all
    names, and hashes.npz, which metapl data select takes.

    Exit code 0: no problem; 1: problems, such as a test picture that is also trained on; 2: SOURCE cannot be opened.

    Examples:

      metapl data check digits

      metapl data check ./my_pictures --out audits/mine

      metapl data check cifar10 --data-dir ~/data --near 6 --strict
    """
    from metapl.data.audit import audit
    from metapl.data.audit import table as audit_table

    @dataclass(frozen=True)
    class Flags:
        source: tyro.conf.Positional[str]
        """A source's name, or a folder or file of pictures."""
        check: Annotated[audit.Check, tyro.conf.arg(name="")] = audit.DEFAULT
        data_dir: Path | None = None
        """Where the source's files are. Default: the per-user cache."""
        out: Path | None = None
        """Folder for audit.json and hashes.npz: new or empty. Default: runs/check, or the next free name after it."""

    flags = parse(Flags, "metapl data check", check, args)
    validate(flags.check)
    source = _open(flags.source, flags.data_dir)
    out = claim(flags.out or next_free(Path("runs/check")))
    console = Console()
    found = audit.audit(source, console, flags.check)
    audit_table.show(found, console)
    audit.write(found, out)
    console.print(f"Wrote {out}/audit.json and hashes.npz", highlight=False, markup=False, soft_wrap=True)
    if found.problems:
        sys.exit(1)


def show(args: Sequence[str]) -> None:
    """Draw a contact sheet: pictures beside their weak and strong views.

    SOURCE is a source's name, a split (cifar10-4k, cifar10@4000#1), or a folder, .csv or .npz of pictures. Writes
    contact_sheet.png. Pictures of digits are not mirrored unless you ask for it.

    Examples:

      metapl data show digits

      metapl data show cifar10-4k --data-dir ~/data --augmentation.strong.magnitude 10

      metapl data show ./my_pictures --size 64 --rows 20 --out sheets/mine
    """
    from metapl.augment import views
    from metapl.data import open_source, pictures
    from metapl.data.splits import assemble
    from metapl.report import contact_sheet
    from metapl.system import runtime

    named = parse(_show_flags(views.Augmentation()), "metapl data show", show, args).source
    config = open_source.settings_of(named)
    flags = parse(_show_flags(views.usual(config.mirrored, config.shift_pixels)), "metapl data show", show, args)
    validate(flags)
    dataset = pictures.load(config, folders(flags.data_dir))
    out = claim(flags.out or next_free(Path("runs/show")))
    runtime.start()
    images, labels = dataset.roles["labeled"]
    chosen = contact_sheet.classes_in_turn(labels, flags.rows)
    originals = assemble.to_array(images, flags.size, chosen)
    names = [dataset.class_names[label] for label in labels[chosen]]
    sheet = out / "contact_sheet.png"
    contact_sheet.show(originals, names, flags.augmentation, sheet, flags.columns, flags.seed)
    Console().print(f"Wrote {sheet}", highlight=False, markup=False, soft_wrap=True)


def _show_flags(usual: "Augmentation") -> Any:
    """The flags of `show`, for a source whose usual views these are."""
    from metapl.augment.views import Augmentation

    @dataclass(frozen=True)
    class Flags:
        source: tyro.conf.Positional[str]
        """What to show."""
        augmentation: Augmentation = usual
        size: Annotated[int, Ge(0)] = 0
        """Side that pictures are cut and scaled to; 0: as stored."""
        rows: Annotated[int, Ge(1)] = 10
        """How many pictures."""
        columns: Annotated[int, Ge(1)] = 4
        """How many views of each kind."""
        seed: Annotated[int, Ge(0)] = 0
        """Draws the views."""
        data_dir: Path | None = None
        """Where the source's files are. Default: the per-user cache."""
        out: Path | None = None
        """Folder for contact_sheet.png: new or empty. Default: runs/show, or the next free name after it."""

    return Flags


def select(args: Sequence[str]) -> None:
    """Keep the most probable extra unlabelled pictures of each class.

    PROBABILITIES is a .npy or .npz [pictures, classes] or a .csv (path,p0,p1,…) of any length. Writes selection.csv
    (row, path, class, probability, copies), audit.csv, which says why each was kept, and summary.json, which counts
    what was left out and why. Give --pictures and --leave-out to leave out what looks like a val or test picture.

    Examples:

      metapl data select probabilities.npy --names paths.txt

      metapl data select probabilities.npy --rank top_class --threshold 0.3 --upsample

      metapl data select probabilities.csv --pictures audits/extra/hashes.npz --leave-out audits/mine/hashes.npz
    """
    from metapl.data.audit import selection
    from metapl.data.reading import probabilities

    @dataclass(frozen=True)
    class Flags:
        probabilities: tyro.conf.Positional[Path]
        """The file of class probabilities."""
        rules: Annotated[selection.Rules, tyro.conf.arg(name="")] = selection.DEFAULT
        names: Path | None = None
        """Text file with one path for each row. Default: the rows' numbers; a CSV brings its own."""
        pictures: str | None = None
        """The rows' pictures: a hashes.npz of metapl data check, or a source."""
        part: str = "unlabeled"
        """Which part of --pictures the rows are."""
        leave_out: tuple[str, ...] = ()
        """Sources, or hashes.npz files, whose val and test pictures must not be selected."""
        near: Annotated[int, tyro.conf.arg(metavar="0…7")] = 6
        """Bits of 64 in which the hashes of look-alikes may differ. Wider than in check: a picture more or less
        costs nothing here, a leak does."""
        data_dir: Path | None = None
        """Where the sources' files are. Default: the per-user cache."""
        out: Path | None = None
        """Folder for the results: new or empty. Default: runs/select, or the next free name after it."""

    flags = parse(Flags, "metapl data select", select, args)
    validate(flags.rules)
    shape = probabilities.shape(flags.probabilities)
    _check_names(flags.names, shape.rows)
    console = Console()
    leave_out = _leave_out(flags.pictures, flags.part, flags.leave_out, flags.near, flags.data_dir, shape.rows)
    out = claim(flags.out or next_free(Path("runs/select")))
    with _progress(console, "select", shape.rows) as advance:
        chosen = selection.select(flags.probabilities, flags.rules, leave_out, advance)
    names = probabilities.names(flags.probabilities, flags.names)
    selection.write(chosen, names, flags.rules, leave_out, out)
    kept = selection.summarize(chosen, flags.rules, leave_out)["kept"]
    console.print(
        f"Kept {kept['distinct_pictures']:,} of {chosen.rows:,} pictures, {kept['with_copies']:,} with copies; "
        f"wrote {out}/selection.csv, audit.csv and summary.json",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )


def _check_names(names: Path | None, rows: int | None) -> None:
    """A names file of other pictures is found before the work, not after it."""
    if names is None:
        return
    if rows is None:
        raise ConfigError("--names is for arrays; a CSV of probabilities brings the names itself")
    if not names.is_file():
        raise ConfigError(f"--names {names} is not a file")
    with names.open("rb") as file:
        lines = sum(1 for _ in file)
    if lines != rows:
        raise ConfigError(f"--names {names} has {lines:,} lines, but there are {rows:,} rows of probabilities")


def _leave_out(
    pictures: str | None, part: str, specs: tuple[str, ...], near: int, data_dir: Path | None, rows: int | None
) -> "LeaveOut | None":
    """What --pictures and --leave-out ask for; nothing where neither is given."""
    import numpy as np

    from metapl.data.audit import leave_out
    from metapl.data.audit.near import MAX_DISTANCE

    if not 0 <= near <= MAX_DISTANCE:
        raise ConfigError(f"--near takes 0 to {MAX_DISTANCE}, got {near}")
    if not specs and pictures is None:
        return None
    if not specs or pictures is None:
        raise ConfigError(
            "--pictures and --leave-out belong together: the rows' pictures, and what they are compared to"
        )
    forbidden = [leave_out.evaluation_hashes(_evaluation(spec, data_dir), spec) for spec in specs]
    return leave_out.LeaveOut(_look(pictures, part, data_dir, rows), np.concatenate(forbidden), near)


def _evaluation(spec: str, data_dir: Path | None) -> "dict[str, Hashed]":
    from metapl.data.audit import leave_out

    return leave_out.read(Path(spec)) if _is_hashes(spec) else leave_out.evaluation_of(_open(spec, data_dir))


def _look(spec: str, part: str, data_dir: Path | None, rows: int | None) -> "HashLookup":
    """How the rows' hashes are had; there must be as many as there are probabilities."""
    from metapl.data.audit import leave_out

    if _is_hashes(spec):
        hashed = _named_part(leave_out.read(Path(spec)), part, spec)
        count, look = len(hashed.hashes), leave_out.from_hashes(hashed)
    else:
        images = _named_part(dict(_open(spec, data_dir).parts), part, spec).images
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


def _open(spec: str, data_dir: Path | None) -> "Source":
    from metapl.data import open_source

    return open_source.open_source(spec, folders(data_dir))


def folders(data_dir: Path | None) -> "Folders":
    """Where data files are looked for: the folder that the user names, then the per-user cache."""
    from metapl.data.reading import files
    from metapl.system import runtime

    return files.search_folders(data_dir, runtime.cache_folder())


@contextmanager
def _progress(console: Console, title: str, total: int | None) -> Iterator[Callable[[int], None]]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("rows"))
    with Progress(*columns, TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(), console=console) as bar:
        task = bar.add_task(title, total=total)
        yield lambda rows: bar.advance(task, rows)
