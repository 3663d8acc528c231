"""`metapl demo`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from metapl import demo as comparison
from metapl.cli.flags import parse
from metapl.schema import validate
from metapl.system import runtime
from metapl.system.folders import claim, next_free
from metapl.system.terminal import Terminal, say


@dataclass(frozen=True)
class DemoFlags:
    """What to compare on, and where the results go."""

    demo: Annotated[comparison.Demo, tyro.conf.arg(name="")] = comparison.Demo()
    out: Path | None = None
    """Folder for the results: new or empty. Default: runs/demo, or the next free name after it."""


def demo(args: Sequence[str]) -> None:
    """Compare the methods on TwoMoon: table and page in two minutes.

    Trains Supervised, Pseudo Labels, MPL, UDA and MPL+UDA on the same random data sets, and MPL without its feedback as
    the control. Prints tables, and writes summary.json, accuracies.csv (one row for each data set), two_moons.png, and
    two_moons.html, a page that shows how the decision regions change during training.

    Examples:
      metapl demo
      metapl demo --datasets 20 --out moons
    """
    flags = parse(DemoFlags, "metapl demo", demo, args, DemoFlags())
    validate(flags)
    out = claim(flags.out or next_free(Path("runs/demo")))
    runtime.start(quick_compile=True)
    terminal = Terminal()
    comparison.compare(flags.demo, out, terminal)
    say(terminal, f"Wrote {out}/summary.json, accuracies.csv, two_moons.png and the page {out}/two_moons.html")
