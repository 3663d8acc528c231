"""`metapl label`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from annotated_types import Ge, Le

from metapl.cli.flags import parse
from metapl.schema import validate
from metapl.system.terminal import Terminal, sayer

HOST = "127.0.0.1"


@dataclass(frozen=True)
class LabelFlags:
    """Which fit, and where the labels go."""

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of a metapl fit."""
    port: Annotated[int, Ge(0), Le(65535)] = 8766
    """Port to serve on; 0: any free port. The address is printed."""
    file: Path | None = None
    """The CSV file that labels are added to; nothing in it is changed. Default: labels.csv in RUN."""


def label(args: Sequence[str]) -> None:
    """Label the pictures that would help a fit most, in the browser.

    RUN is the folder of a metapl fit. The page shows the pictures of its label_next.csv one by one: click the right
    class, or press its number. Each click is added to a CSV file at once. The page is for this machine only. Ctrl-C
    stops. Then metapl fit DATA --after RUN trains with the new labels. Needs pip install 'metapl[serve]'.

    Examples:
      metapl label runs/mine
      metapl fit my_pictures --after runs/mine --out runs/mine-2
    """
    flags = parse(LabelFlags, "metapl label", label, args)
    validate(flags)

    from metapl.web import require

    require("label")
    from metapl.web.label.queue import load
    from metapl.web.label.routes import LABEL
    from metapl.web.server import Limits, Server, signals

    say = sayer(Terminal())
    queue = load(flags.run, flags.file)
    server = Server(HOST, flags.port, Limits(stop_s=2.0), LABEL)
    try:
        with signals() as wait:
            server.start(queue)
            say(f"{len(queue.asked)} pictures to label: {server.address} (Ctrl-C stops)")
            say(f"{wait()}: stopping; the labels are in {queue.file}")
            server.stop()
    finally:
        server.close()
