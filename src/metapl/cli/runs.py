"""`metapl runs`."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro

from metapl.cli.flags import parse
from metapl.runs import find, no_run
from metapl.system.terminal import Terminal, say


@dataclass(frozen=True)
class RunsFlags:
    """Where to look, and how to list."""

    folders: tyro.conf.Positional[tuple[Path, ...]] = (Path("runs"),)
    """Where to look."""
    sort: find.Sort = "changed"
    """Newest first, by name, or best first."""
    json: bool = False
    """Print JSON instead of the table."""


def runs(args: Sequence[str]) -> None:
    """List runs: method, data, state, steps, accuracy.

    Looks for runs in the folders and up to four levels below them. A run is finished, running (a process works on it),
    stopped (metapl resume RUN continues it), failed, or broken; the row of a broken run names the damaged file.

    Examples:
      metapl runs
      metapl runs runs/cifar ~/other/runs --sort accuracy
      metapl runs --json
    """
    flags = parse(RunsFlags, "metapl runs", runs, args)
    rows = find.find_runs(flags.folders, flags.sort)
    terminal = Terminal()
    if not terminal.is_terminal:
        terminal = Terminal(width=200)  # a file or a pipe has no narrow window
    if flags.json:
        say(terminal, json.dumps(find.as_json(rows), indent=2))
    elif rows:
        terminal.print(find.table(rows))
    else:
        places = " or ".join(map(str, flags.folders))
        say(terminal, no_run.explain(flags.folders) or f"there are no runs in {places}; metapl train makes one")
