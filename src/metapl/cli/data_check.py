"""`metapl data check`."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from metapl.cli.data_folders import folders
from metapl.cli.flags import parse
from metapl.cli.source_flags import named_source, with_defaults
from metapl.data import open_source
from metapl.data.audit import audit
from metapl.data.audit import table as audit_table
from metapl.schema import validate
from metapl.system.folders import all_or_nothing, claim, next_free
from metapl.system.terminal import Terminal, say


@dataclass(frozen=True)
class DataCheckFlags:
    """Which source to check, how, and where the results go."""

    source: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="SOURCE")]
    """A source's name, a split (cifar10-4k), or a folder, .csv, .npz, .tar or .parquet."""
    rules: Annotated[audit.Check, tyro.conf.arg(name="")] = audit.DEFAULT
    data_dir: Path | None = None
    """Where the source's files are. Default: the user's cache."""
    out: Path | None = None
    """Folder for audit.json and hashes.npz: new or empty. Default: runs/check, or the next free name after it."""


def check(args: Sequence[str]) -> None:
    """Look for bad files, copies and leaks in a data source.

    Reads every picture once. Lists unreadable files, sizes and modes, class counts, and pictures that are the same or
    look the same, within a part and across the parts (labeled, unlabeled, val, test, …). Writes audit.json, with all
    names, and hashes.npz, which metapl data select reads. If SOURCE is the first word, the source's settings are flags,
    too: metapl data check SOURCE --help lists them.

    Exit code 0: no problem; 1: problems, such as a test picture that is also trained on; 2: SOURCE cannot be opened.

    Examples:
      metapl data check digits
      metapl data check ./my_pictures --out audits/mine
      metapl data check cifar10 --data-dir ~/data --near 6 --strict
      metapl data check webdataset --data.path ./shards --data.label json.kind
      metapl data check svhn --data.no-extra
    """
    settings = named_source(DataCheckFlags, "metapl data check", check, args)
    flags: Any = parse(with_defaults(DataCheckFlags, data=settings), "metapl data check", check, args)
    validate(flags)
    source = open_source.open_settings(flags.data, folders(flags.data_dir))
    out = claim(flags.out or next_free(Path("runs/check")))
    terminal = Terminal()
    result = audit.audit(source, terminal, flags.rules)
    audit_table.show(result, terminal)
    with all_or_nothing(out) as place:
        audit.write(result, place)
    say(terminal, f"Wrote {out}/audit.json and hashes.npz")
    if result.problems:
        sys.exit(1)
