"""From runs to the blocks of a report."""

from collections.abc import Callable, Sequence

import metapl
from metapl.report import compare, method, metrics
from metapl.report.blocks import Block, Heading, Plain, Text
from metapl.report.overview import overview
from metapl.report.read import ReportedRun
from metapl.report.run_section import section

FEW = 3  # up to so many runs are shown unfolded
SOME = 10  # up to so many runs have finely drawn curves
COLUMNS = {True: 240, False: 100}  # points of a curve, fine and coarse

Pictures = Callable[[ReportedRun], Sequence[Plain]]


def build(
    loaded: Sequence[ReportedRun], pictures: Pictures, read: metrics.Read = metrics.read
) -> tuple[str, list[Block]]:
    """Compare runs and show each of them; return the title and the blocks below it."""
    origins = {run.anchor: method.origin(run) for run in loaded}
    experiments = compare.by_experiment(loaded, origins)
    finished = sum(run.finished for run in loaded)
    title = f"Report on {len(loaded)} {'run' if len(loaded) == 1 else 'runs'}"
    blocks: list[Block] = [Text(f"{finished} of {len(loaded)} finished. Made by metapl {metapl.__version__}.", "note")]
    blocks += [*overview(loaded, experiments, origins), Heading("Run by run")]
    columns, opened = COLUMNS[len(loaded) <= SOME], len(loaded) <= FEW
    blocks += [section(run, origins[run.anchor], pictures(run), read, columns, opened) for run in loaded]
    return title, blocks


def no_pictures(loaded: ReportedRun) -> Sequence[Plain]:
    """A note for reports without --pictures."""
    if not loaded.finished:
        return []
    why = "Runs store their calibration error, not their predictions; --pictures predicts again and draws them."
    return [Text(f"No calibration plot and no pictures. {why}", "note")]
