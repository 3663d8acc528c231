"""The command line's side: from a run's folder to an address that answers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from annotated_types import Ge, Gt, Le
from rich.console import Console

from metapl.cli.flags import parse
from metapl.data.reading.decode import DataError
from metapl.schema import ConfigError, validate
from metapl.system.terminal import sayer

if TYPE_CHECKING:  # none of them is waited for before the flags are read
    from metapl.evaluate.predictor import Predictor
    from metapl.web.serve.examples import Examples
    from metapl.web.serve.model import Served

NOT_WANTED = "metapl serve was told to show none (--examples 0)."
NOT_THERE = "the pictures that the network was trained with are not where they were, or have changed."


@dataclass(frozen=True)
class Flags:
    """What `metapl serve` takes."""

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of a run."""
    host: str = "127.0.0.1"
    """Address to serve on. Any other than the default lets other machines in: there is no password."""
    port: Annotated[int, Ge(0), Le(65535)] = 8765
    """0 takes any port that is free; the address is printed."""
    max_mb: Annotated[float, Gt(0), Le(1000)] = 20.0
    """Largest picture that is taken, in megabytes."""
    examples: Annotated[int, Ge(0)] = 1000
    """Labelled pictures among which the nearest are looked for, as many of each class; 0: none are shown."""
    data_dir: Path | None = None
    """Where the run's data files are, if they were moved. Default: where the run found them."""


def serve(args: Sequence[str], verb: Callable[..., None]) -> None:
    """Load, compile, listen, and stop when asked to."""
    flags = parse(Flags, "metapl serve", verb, args)
    validate(flags)

    from metapl.system import runtime
    from metapl.web.guard import is_loopback
    from metapl.web.server import Limits, Server, signals

    say = sayer(Console())
    runtime.start()
    server = Server(flags.host, flags.port, Limits(max_bytes=round(flags.max_mb * 1e6)))
    try:
        if not is_loopback(flags.host):
            say("Warning: other machines can reach this server, and there is no password; anyone there can ask it.")
        served = prepare(flags, say)
        with signals() as wait:
            server.start(served)
            say(f"Ready: {server.address} (Ctrl-C stops)")
            say(f"{wait()}: stopping")
            server.stop()
    finally:
        server.server_close()


def prepare(flags: Flags, say: Callable[[str], None]) -> "Served":
    """Load the network and its labelled pictures, and compile."""
    from metapl.evaluate import predictor as predictors
    from metapl.web.serve.model import Served, facts

    run = predictors.choose(flags.run).run
    predictor = predictors.load(flags.run)
    if not predictor.takes_pictures:
        raise ConfigError(f"{flags.run} was trained on points, not on pictures: there is nothing to drop on a page")
    examples, why_none = find_examples(flags, predictor, run, say)
    served = Served(predictor, facts(flags.run.resolve().name, run, predictor), examples, why_none)
    served.warm_up()
    return served


def find_examples(
    flags: Flags, predictor: "Predictor", run: Path, say: Callable[[str], None]
) -> tuple["Examples | None", str]:
    """The run's labelled pictures, or else why there are none: answers do not depend on them.

    The page says it in general words; what is said here names paths, which are not everybody's business.
    """
    from metapl.cli.data import folders
    from metapl.web.serve.examples import collect

    places = folders(flags.data_dir)
    if not flags.examples:
        return None, NOT_WANTED
    try:
        examples = collect(predictor, run.absolute(), places, flags.examples)
    except DataError as error:
        say(f"No labelled examples will be shown: {error}")
        return None, NOT_THERE
    say(f"Looked at {len(examples):,} labelled pictures")
    return examples, ""
