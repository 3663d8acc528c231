"""`metapl report`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from metapl.cli.data_folders import folders
from metapl.cli.flags import parse
from metapl.report import html, markdown
from metapl.report.build import SOME, Pictures, build, no_pictures
from metapl.report.read import read_runs
from metapl.schema import ConfigError, validate
from metapl.system.disk import reason, write_atomically
from metapl.system.folders import claim, next_free
from metapl.system.terminal import Terminal, say

EACH = {True: 12, False: 6}  # pictures of a kind, for a few runs and for many


@dataclass(frozen=True)
class ReportFlags:
    """Which runs to show, and where the page goes."""

    runs: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="RUN…")]
    """Folders of runs, or folders with runs below them, in any state."""
    out: Path | None = None
    """Folder for report.html and report.md: new or empty. Default: report, or the next free name after it."""
    pictures: bool = False
    """Evaluate each finished run again, and show its calibration and its most and least confident pictures."""
    data_dir: Path | None = None
    """Where data files are, for --pictures. Default: where the run found them."""

    def check(self) -> None:
        """Check that runs are named."""
        if not self.runs:
            raise ValueError(
                "report needs runs: metapl report runs/one runs/two, or metapl report runs for all of them"
            )


def report(args: Sequence[str]) -> None:
    """Write a page about runs: tables, curves, comparisons, pictures.

    RUN is the folder of a run, or one with runs below it. Runs in any state are shown, and the page says what failed,
    is unfinished or lacks files. Writes report.html, one file that needs no network, and report.md. Runs that differ
    only in their seeds are one row; rows on the same data are compared seed by seed. docs/reports.md explains the page.

    Examples:
      metapl report runs/digits_mpl_small
      metapl report runs/uda runs/mpl runs/mpl_none --out reports/digits --pictures
      metapl report runs
    """
    flags = parse(ReportFlags, "metapl report", report, args)
    validate(flags)
    loaded = read_runs(flags.runs)  # before a folder is made: a wrong name leaves nothing behind
    out = claim(flags.out or next_free(Path("report")))
    title, blocks = build(loaded, _pictures(flags, EACH[len(loaded) <= SOME]))
    try:
        write_atomically(out / "report.html", html.page(title, blocks).encode())
        write_atomically(out / "report.md", markdown.page(title, blocks).encode())
    except OSError as error:
        raise ConfigError(f"the report could not be written to {out}: {reason(error)}") from None
    count = f"{len(loaded)} {'run' if len(loaded) == 1 else 'runs'}"
    say(Terminal(), f"Wrote {out}/report.html and report.md: {count}")


def _pictures(flags: ReportFlags, each: int) -> Pictures:
    if not flags.pictures:
        return no_pictures
    from metapl.report.pictures import pictures
    from metapl.system import runtime

    runtime.start()
    places = folders(flags.data_dir)
    return lambda loaded: pictures(loaded, places, each)
