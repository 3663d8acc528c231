"""`metapl data show`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from annotated_types import Ge

from metapl.augment import views
from metapl.augment.views import Augmentation
from metapl.cli.data_folders import folders
from metapl.cli.flags import parse
from metapl.cli.source_flags import named_source, with_defaults
from metapl.data import pictures
from metapl.data.splits import assemble
from metapl.report import contact_sheet
from metapl.schema import validate
from metapl.system import runtime
from metapl.system.folders import claim, next_free
from metapl.system.terminal import Terminal, say


@dataclass(frozen=True)
class DataShowFlags:
    """Which source to show, and how."""

    source: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="SOURCE")]
    """What to show."""
    augmentation: Augmentation = Augmentation()
    size: Annotated[int, Ge(0)] = 0
    """Side that pictures are cut and scaled to; 0: as stored."""
    rows: Annotated[int, Ge(1)] = 10
    """How many pictures to show."""
    columns: Annotated[int, Ge(1)] = 4
    """How many views of each kind to show."""
    seed: Annotated[int, Ge(0)] = 0
    """Seed of the random views."""
    data_dir: Path | None = None
    """Where the source's files are. Default: the user's cache."""
    out: Path | None = None
    """Folder for contact_sheet.png: new or empty. Default: runs/show, or the next free name after it."""


def show(args: Sequence[str]) -> None:
    """Draw pictures beside their weak and strong views.

    SOURCE is a source's name, a split (cifar10-4k, cifar10@4000#1), or a folder, .csv, .npz, .tar or .parquet. Writes
    contact_sheet.png. Pictures of digits are not mirrored unless you ask for it. If SOURCE is the first word, the
    source's settings are flags, too: metapl data show SOURCE --help lists them.

    Examples:
      metapl data show digits
      metapl data show cifar10-4k --data-dir ~/data --augmentation.strong.magnitude 10
      metapl data show ./my_pictures --size 64 --rows 20 --out sheets/mine
    """
    settings = named_source(DataShowFlags, "metapl data show", show, args)
    usual = views.usual(settings.mirrored, settings.shift_pixels)
    cls = with_defaults(DataShowFlags, augmentation=usual, data=settings)
    flags: Any = parse(cls, "metapl data show", show, args)
    validate(flags)
    dataset = pictures.load(flags.data, folders(flags.data_dir))
    out = claim(flags.out or next_free(Path("runs/show")))
    runtime.start()
    images, labels = dataset.roles["labeled"]
    chosen = contact_sheet.classes_in_turn(labels, flags.rows)
    originals = assemble.to_array(images, flags.size, chosen)
    names = [dataset.class_names[label] for label in labels[chosen]]
    sheet = out / "contact_sheet.png"
    contact_sheet.show(originals, names, flags.augmentation, sheet, flags.columns, flags.seed)
    say(Terminal(), f"Wrote {sheet}")
