"""From runs to the blocks of a report."""

from collections.abc import Callable, Sequence

import metapl
from metapl.report import compare, method, metrics
from metapl.report.blocks import Block, Heading, Plain, Text
from metapl.report.overview import overview
from metapl.report.read import Loaded
from metapl.report.run_section import section

FEW = 3  # runs that are shown unfolded
SOME = 10  # runs with finely drawn curves; of more, each takes less room
COLUMNS = {True: 240, False: 100}  # points of a curve

Pictures = Callable[[Loaded], Sequence[Plain]]


def build(loaded: Sequence[Loaded], pictures: Pictures, read: metrics.Read = metrics.read) -> tuple[str, list[Block]]:
    """Compare runs and show each of them; the title, and what stands below it."""
    origins = {run.anchor: method.origin(run) for run in loaded}
    rows = compare.rows(loaded, origins)
    finished = sum(run.finished for run in loaded)
    title = f"Report on {len(loaded)} {'run' if len(loaded) == 1 else 'runs'}"
    blocks: list[Block] = [Text(f"{finished} of {len(loaded)} finished. Made by metapl {metapl.__version__}.", "note")]
    blocks += [*overview(loaded, rows, origins), Heading("Run by run")]
    columns, opened = COLUMNS[len(loaded) <= SOME], len(loaded) <= FEW
    blocks += [section(run, origins[run.anchor], pictures(run), read, columns, opened) for run in loaded]
    return title, blocks


def no_pictures(loaded: Loaded) -> Sequence[Plain]:
    """What is said where nobody asked for pictures."""
    if not loaded.finished:
        return []
    said = "Runs store their calibration error, not their answers: --pictures asks the weights again, and draws them."
    return [Text(f"No calibration plot and no pictures. {said}", "note")]
