"""`metapl resume`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from annotated_types import Ge

from metapl.cli.data_folders import folders
from metapl.cli.flags import parse
from metapl.schema import validate
from metapl.system import runtime
from metapl.system.terminal import Terminal


@dataclass(frozen=True)
class ResumeFlags:
    """Which run, and what has changed around it."""

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of the run."""
    data_dir: Path | None = None
    """Where data files are, if they were moved. Default: where the run found them."""
    mode: Literal["auto", "single", "data", "hybrid", "weights"] | None = None
    """Share the work in another way: replaces the run's `parallel.mode`."""
    model: Annotated[int, Ge(1)] = 1
    """With --mode hybrid or weights: replaces the run's `parallel.model`."""
    cluster: Annotated[runtime.Cluster, tyro.conf.arg(name="")] = runtime.Cluster()


def resume(args: Sequence[str]) -> None:
    """Continue a run that was stopped or killed, to the same result.

    RUN is the folder that metapl train --out made. The run continues from its newest checkpoint with its own settings.
    The result has the same bits as without the stop (same machine, same software). A damaged checkpoint is named and
    set aside, and the one before it is used. Nothing is trained if the run is finished, if another process works on it,
    or if its settings or data have changed. docs/runs.md explains each case.

    Examples:
      metapl train digits_mpl_small --out runs/mine      and Ctrl-C, or a power cut
      metapl resume runs/mine
    """
    flags = parse(ResumeFlags, "metapl resume", resume, args)
    validate(flags)
    out, places = flags.run.absolute(), folders(flags.data_dir.absolute()) if flags.data_dir else None
    from metapl.runs import run_folder
    from metapl.runs.resume import resume_run
    from metapl.system import processes
    from metapl.system.sharding import Parallel

    parallel = Parallel(flags.mode or "auto", flags.model) if flags.mode or flags.model > 1 else None
    if parallel:
        validate(parallel)
    runtime.connect(flags.cluster)
    with processes.together(), run_folder.where_it_began(out):
        runtime.start()
        resume_run(out, places, Terminal(quiet=not processes.is_leader()), parallel)
