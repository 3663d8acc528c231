"""`metapl watch`."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from annotated_types import Ge, Le

from metapl.cli.flags import parse
from metapl.runs import no_run
from metapl.schema import ConfigError, validate
from metapl.system.terminal import Terminal, sayer

HOST = "127.0.0.1"


@dataclass(frozen=True)
class WatchFlags:
    """Which runs to follow, and for how long."""

    runs: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="RUN…")]
    """Folders of runs, or folders with runs below them."""
    port: Annotated[int, Ge(0), Le(65535)] = 0
    """Port to serve on; 0: any free port. The address is printed."""
    wait: bool = False
    """Wait for runs that have not started yet."""
    stay: bool = False
    """Keep serving after the runs have ended, until Ctrl-C."""

    def check(self) -> None:
        """Check that a run is named."""
        if not self.runs:
            raise ValueError("watch needs a run: metapl watch runs/mine, the folder that metapl train --out has made")


def watch(args: Sequence[str]) -> None:
    """Follow runs while they train, on a page on this machine.

    RUN is the folder of a run, or one with runs below it (a fit's folder, or runs/ itself). The page is that of metapl
    report; it updates by itself, and keeps what you have opened, sorted or scrolled to. The command ends when the runs
    have finished, failed or been killed, and says which; the browser keeps the last page. For a run on another machine:
    ssh -L PORT:127.0.0.1:PORT there. Needs pip install 'metapl[serve]'. docs/watching.md explains more.

    Examples:
      metapl watch runs/mine
      metapl watch runs/mine --wait --port 8766     before metapl train --out runs/mine has started
      metapl watch runs/mine --stay                 until Ctrl-C, even when the run has ended
    """
    flags = parse(WatchFlags, "metapl watch", watch, args)
    validate(flags)

    from metapl.web import require

    require("watch")
    from metapl.web.server import Limits, Server, signals
    from metapl.web.watch.live_page import FIRST_VISIT_S, LivePage
    from metapl.web.watch.routes import WATCH

    say = sayer(Terminal())
    live_page = LivePage(flags.runs)
    _check_begun(flags, live_page.begun)
    server = Server(HOST, flags.port, Limits(stop_s=2.0), WATCH)

    def is_over() -> bool:
        live_page.tick()
        return not flags.stay and live_page.is_over()

    try:
        with signals() as wait:
            server.start(live_page)
            say(f"Watching: {server.address} (Ctrl-C stops)")
            if live_page.begun and not live_page.at_work:
                until = "until Ctrl-C" if flags.stay else f"for {FIRST_VISIT_S:.0f} s or one visit (--stay: longer)"
                say(f"{' '.join(live_page.endings())} The runs have ended; the page is served {until}")
            elif not live_page.begun:
                say("No run has started there yet: waiting")
            signal = wait(is_over)
            say(f"{signal}: stopping" if signal else " ".join(live_page.endings()))
            live_page.close()
            server.stop()
    finally:
        server.close()


def _check_begun(flags: WatchFlags, begun: bool) -> None:
    """Refuse folders without runs, unless --wait is given."""
    missing = [place for place in flags.runs if not os.path.isdir(place)]
    if wrong := [place for place in missing if os.path.exists(place)]:
        raise ConfigError(f"{wrong[0]} is not a folder; give the folder of a run, or one with runs below it")
    if not flags.wait and (missing or not begun):
        if sentence := no_run.explain(flags.runs):
            raise ConfigError(sentence)
        places = " or ".join(map(str, missing or flags.runs))
        raise ConfigError(f"there is no run in {places}; with --wait, metapl watch waits until one starts there")
