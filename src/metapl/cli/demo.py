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
    pictures: bool = True
    """Also run metapl fit on digits, as PNGs: 5 labelled pictures a class, and 1,347 unlabelled ones."""
    out: Path | None = None
    """Folder for the results: new or empty. Default: runs/demo, or the next free name after it."""


def demo(args: Sequence[str]) -> None:
    """See metapl at work: fit digits, and compare the methods on TwoMoon.

    Writes scikit-learn's digits as PNGs and runs metapl fit on them, as you would on your own pictures. At the same
    time, it trains Supervised, Pseudo Labels, MPL, UDA and MPL+UDA on the same random data sets, and MPL without its
    feedback as the control. Prints tables, and writes fit/report.html, the page of the fit; summary.json,
    accuracies.csv (one row for each data set), two_moons.png; and two_moons.html, a page that shows how the decision
    regions change during training. Takes about two minutes on two cores.

    Examples:
      metapl demo
      metapl demo --no-pictures --datasets 20 --out moons
    """
    flags = parse(DemoFlags, "metapl demo", demo, args, DemoFlags())
    validate(flags)
    out = claim(flags.out or next_free(Path("runs/demo")))
    runtime.start(quick_compile=True)
    terminal, training = Terminal(), comparison.Training(flags.demo)
    if flags.pictures:
        from metapl.demo_fit import fit_digits  # imported here: --help must not wait for it

        say(terminal, "1. metapl fit, on digits as pictures", style="bold")
        with training.beside():
            page = fit_digits(out, terminal)
        say(terminal, "2. The methods on TwoMoon", style="bold")
    comparison.compare(flags.demo, out, terminal, training)
    say(terminal, f"Wrote {out}/summary.json, accuracies.csv, two_moons.png and the page {out}/two_moons.html")
    if flags.pictures:
        say(terminal, f"Open the page of the fit: {page.absolute().as_uri()}")
