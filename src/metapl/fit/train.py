"""Train one of a fit's runs to its end, from its beginning or from where an earlier session left it."""

from pathlib import Path

from rich.console import Console

from metapl.config import Config
from metapl.runs import run_folder
from metapl.runs.resume import resume_run
from metapl.runs.start import start_run


def train(out: Path, config: Config, console: Console, seeds: int = 1) -> None:
    """Start a run, or resume it, and train to its end; a finished run stays as it is."""
    if (out / run_folder.RESULT).is_file():
        return
    if (out / run_folder.CONFIG).is_file():
        with run_folder.where_it_began(out.absolute()):
            resume_run(out.absolute(), None, console)
    else:
        out.mkdir(exist_ok=True)  # a start that failed may have left a lock in it
        start_run(config, seeds, seeds, (), out, console)
