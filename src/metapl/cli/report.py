"""`metapl report`: its flags, and the two files that it writes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from metapl.cli.flags import parse
from metapl.data.reading.files import Folders
from metapl.report import html, markdown
from metapl.report.build import SOME, Pictures, build, no_pictures
from metapl.report.read import find
from metapl.schema import ConfigError, validate
from metapl.system.disk import reason, write_atomically
from metapl.system.folders import claim, next_free
from metapl.system.terminal import say

EACH = {True: 12, False: 6}  # pictures of a kind, for a few runs and for many


@dataclass(frozen=True)
class Flags:
    """Which runs, and where the page goes."""

    runs: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="RUN…")]
    """Folders of runs, or folders with runs below them, in any state."""
    out: Path | None = None
    """Folder for report.html and report.md: new or empty. Default: report, or the next free name after it."""
    pictures: bool = False
    """Ask each finished run's weights about its test data again: a calibration plot, and the pictures that it is most,
    least and wrongly sure of."""
    data_dir: Path | None = None
    """Where data files are, for --pictures. Default: where the run found them."""

    def check(self) -> None:
        """Check that there are runs."""
        if not self.runs:
            raise ValueError(
                "report needs runs: metapl report runs/one runs/two, or metapl report runs for all of them"
            )


def report(args: Sequence[str], documented: Callable[..., None], folders: Callable[[Path | None], Folders]) -> None:
    """Build the report and say where it is."""
    flags = parse(Flags, "metapl report", documented, args)
    validate(flags)
    loaded = find(flags.runs)  # before a folder is made: a wrong name leaves nothing behind
    out = claim(flags.out or next_free(Path("report")))
    title, blocks = build(loaded, _pictures(flags, folders, EACH[len(loaded) <= SOME]))
    try:
        write_atomically(out / "report.html", html.page(title, blocks).encode())
        write_atomically(out / "report.md", markdown.page(title, blocks).encode())
    except OSError as error:
        raise ConfigError(f"the report could not be written to {out}: {reason(error)}") from None
    said = f"Wrote {out}/report.html and report.md: {len(loaded)} {'run' if len(loaded) == 1 else 'runs'}"
    say(Console(), said)


def _pictures(flags: Flags, folders: Callable[[Path | None], Folders], each: int) -> Pictures:
    if not flags.pictures:
        return no_pictures
    from metapl.report.pictures import pictures
    from metapl.system import runtime

    runtime.start()
    places = folders(flags.data_dir)
    return lambda loaded: pictures(loaded, places, each)
