"""The command line's side: from folders of runs to an address, until the runs have ended."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from annotated_types import Ge, Le
from rich.console import Console

from metapl.cli.flags import parse
from metapl.runs import no_run
from metapl.schema import ConfigError, validate
from metapl.system.terminal import sayer

HOST = "127.0.0.1"


@dataclass(frozen=True)
class Flags:
    """What `metapl watch` takes."""

    runs: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="RUN…")]
    """Folders of runs, or folders with runs below them."""
    port: Annotated[int, Ge(0), Le(65535)] = 0
    """0 takes any port that is free; the address is printed."""
    wait: bool = False
    """Wait for runs that have not begun yet."""
    stay: bool = False
    """Go on serving when the runs have ended, until Ctrl-C."""

    def check(self) -> None:
        """Check that there is a run."""
        if not self.runs:
            raise ValueError("watch needs a run: metapl watch runs/mine, the folder that metapl train --out has made")


def watch(args: Sequence[str], documented: Callable[..., None]) -> None:
    """Serve the page until the runs have ended."""
    flags = parse(Flags, "metapl watch", documented, args)
    validate(flags)

    from metapl.web.server import Limits, Server, signals
    from metapl.web.watch.following import FIRST_VISIT_S, Following
    from metapl.web.watch.handler import Handler

    say = sayer(Console())
    following = Following(flags.runs)
    _check_begun(flags, following.begun)
    server = Server(HOST, flags.port, Limits(stop_s=2.0), Handler)

    def over() -> bool:
        following.tick()
        return not flags.stay and following.is_over()

    try:
        with signals() as wait:
            server.start(following)
            say(f"Watching: {server.address} (Ctrl-C stops)")
            if following.begun and not following.at_work:
                stays = (
                    "until Ctrl-C"
                    if flags.stay
                    else f"for {FIRST_VISIT_S:.0f} s, or until it was opened; --stay: longer"
                )
                say(f"{' '.join(following.told())} There is nothing left to follow; the page is there {stays}")
            elif not following.begun:
                say("No run has begun there yet: waiting")
            signal = wait(over)
            say(f"{signal}: stopping" if signal else " ".join(following.told()))
            following.close()
            server.stop()
    finally:
        server.server_close()


def _check_begun(flags: Flags, begun: bool) -> None:
    """Without --wait there must be something to see."""
    missing = [place for place in flags.runs if not os.path.isdir(place)]
    if wrong := [place for place in missing if os.path.exists(place)]:
        raise ConfigError(f"{wrong[0]} is not a folder; give the folder of a run, or one with runs below it")
    if not flags.wait and (missing or not begun):
        if sentence := no_run.told(flags.runs):
            raise ConfigError(sentence)
        places = " or ".join(map(str, missing or flags.runs))
        raise ConfigError(f"there is no run in {places}; with --wait, metapl watch waits until one begins there")
