"""`metapl eval`."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from metapl.cli.data_folders import folders
from metapl.cli.flags import parse
from metapl.system.folders import claim
from metapl.system.terminal import Terminal, say


@dataclass(frozen=True)
class EvalFlags:
    """Which run, on what, and where the numbers go."""

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of a finished run."""
    part: Literal["test", "val"] = "test"
    """Evaluate on the test or the validation pictures."""
    data_dir: Path | None = None
    """Where data files are, if the source has any. Default: the user's cache."""
    out: Path | None = None
    """Folder for evaluation.json: new or empty. Default: no file is written."""
    json: bool = False
    """Print JSON instead of the table."""


def eval_run(args: Sequence[str]) -> None:
    """Evaluate a finished run again, on the data it was trained with.

    RUN is the folder of a run, which holds its settings, split and weights. Data that differ from the run's data are
    refused. Prints a table, and says whether result.json has the same numbers. With --out, writes evaluation.json.

    Examples:
      metapl eval runs/digits_mpl_small
      metapl eval runs/mine --part val --data-dir ~/data --out evaluations/mine
      metapl eval runs/mine --json
    """
    flags = parse(EvalFlags, "metapl eval", eval_run, args)

    from metapl.evaluate import finished_run, results
    from metapl.system import runtime

    runtime.start()
    summary, remarks = finished_run.evaluate(flags.run, flags.part, folders(flags.data_dir))
    text = json.dumps(summary | {"remarks": remarks}, indent=2)
    if flags.out:
        (claim(flags.out) / "evaluation.json").write_text(text + "\n", "utf-8")
    terminal = Terminal()
    if flags.json:
        say(terminal, text)
        return
    terminal.print(results.table(summary, flags.part))
    for remark in remarks:
        say(terminal, remark)
