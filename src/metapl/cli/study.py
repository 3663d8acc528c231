"""`metapl study`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from metapl.cli.data_folders import folders
from metapl.cli.flags import parse, split_words
from metapl.schema import ConfigError, validate
from metapl.system.terminal import Terminal, say


@dataclass(frozen=True)
class StudyFlags:
    """How much of a study to run, and where."""

    small: bool = False
    """Run the study's small version, for a laptop."""
    part: Literal["test", "val"] = "test"
    """Measure on the test part, or on the validation part while settings are still being chosen."""
    report_only: bool = False
    """Run nothing; write the tables of the runs that are finished."""
    data_dir: Path | None = None
    """Where data files are, if the sources have any. Default: the user's cache."""
    out: Path | None = None
    """Folder of the study. The same folder continues a study. Default: runs/study-NAME, with -small for --small."""


def study(args: Sequence[str]) -> None:
    """Run a table of runs and compare them, seed by seed.

    NAME is a study that comes with metapl, or a TOML file that names the arms, the cases, the pairs to compare and the
    seeds (docs/studies.md). Runs that are finished are not repeated, a stopped run is resumed, and a second process
    with the same --out takes the runs that the first one has not begun. Prints tables, and writes study.md and
    study.html: mean ± std, paired differences with intervals, and a forest plot.

    Examples:
      metapl study                                      lists the studies
      metapl study feedback --small --data-dir ~/data
      metapl study my_study.toml --out studies/mine
    """
    from metapl.study import read

    words, rest = split_words(args)
    flags = parse(StudyFlags, "metapl study NAME", study, rest, StudyFlags())
    validate(flags)
    terminal = Terminal()
    if not words:
        for name, title in read.studies().items():
            say(terminal, f"{name:<16}{title}")
        return
    if len(words) > 1:
        raise ConfigError(f"study takes one study at a time, got {', '.join(words)}")
    loaded = read.load(words[0], flags.small)
    name = Path(words[0]).stem + ("-small" if flags.small else "")
    out = (flags.out or Path("runs") / f"study-{name}").absolute()
    if not flags.report_only:
        out.mkdir(parents=True, exist_ok=True)

    from metapl.study import report, work
    from metapl.system import runtime

    runtime.start()
    if not flags.report_only:
        work.work(loaded, out, folders(flags.data_dir), terminal)
    tables = work.tables(loaded, out, flags.part)
    if not tables.accuracies:
        raise ConfigError(f"{out} has no finished run yet; without --report-only, metapl study starts the runs")
    terminal.print(report.table(loaded, tables))
    terminal.print(report.difference_table(loaded, tables.accuracies))
    command = "metapl study " + " ".join(args)
    for path in report.write(loaded, out, tables, command):
        say(terminal, f"wrote {path}")
