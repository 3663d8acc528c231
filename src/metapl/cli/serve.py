"""`metapl serve`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from annotated_types import Ge, Gt, Le

from metapl.cli.data_folders import folders
from metapl.cli.flags import parse
from metapl.data.reading.decode import DataError
from metapl.schema import ConfigError, validate
from metapl.system.terminal import Terminal, sayer

if TYPE_CHECKING:  # imported after the flags are read: --help must not wait for them
    from metapl.evaluate.predictor import Predictor
    from metapl.web.serve.examples import LabeledExamples
    from metapl.web.serve.network import ServedNetwork

NOT_WANTED = "metapl serve was started with --examples 0."
NOT_THERE = "the pictures that the network was trained with were moved or have changed."


@dataclass(frozen=True)
class ServeFlags:
    """Which run, and how to serve it."""

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of a finished run, or of metapl fit."""
    host: str = "127.0.0.1"
    """Address to serve on. Other addresses than the default let other machines in, with the token that is printed."""
    port: Annotated[int, Ge(0), Le(65535)] = 8765
    """Port to serve on; 0: any free port. The address is printed."""
    max_mb: Annotated[float, Gt(0), Le(1000)] = 20.0
    """Largest picture that is accepted, in megabytes."""
    examples: Annotated[int, Ge(0)] = 1000
    """Search the nearest examples among this many labelled pictures, equally many of each class; 0: show none."""
    data_dir: Path | None = None
    """Where the run's data files are, if they were moved. Default: where the run found them."""


def serve(args: Sequence[str]) -> None:
    """Serve a page that predicts the class of a dropped picture.

    RUN is the folder of a finished run. The page shows a picture's classes and the nearest labelled examples. The page
    and its JSON endpoint are for this machine only, unless --host says otherwise; then every request needs the token
    that is printed. Pictures are not kept. Ctrl-C stops. Needs pip install 'metapl[serve]'. docs/own_pictures.md
    explains the endpoint.

    Examples:
      metapl serve runs/mine
      metapl serve runs/mine --port 0 --max-mb 5
      curl --data-binary @cat.jpg -H 'Content-Type: image/jpeg' http://127.0.0.1:8765/api/predict
    """
    flags = parse(ServeFlags, "metapl serve", serve, args)
    validate(flags)

    from metapl.system import runtime
    from metapl.web import require

    require("serve")
    from metapl.web.server import Limits, Server, signals

    say = sayer(Terminal())
    runtime.start()
    server = Server(flags.host, flags.port, Limits(max_bytes=round(flags.max_mb * 1e6)))
    try:
        if server.token:
            say("Warning: other machines can reach this server; everyone who has its token can use it.")
        served = prepare(flags, say)
        with signals() as wait:
            server.start(served)
            say(f"Ready: {server.address} (Ctrl-C stops)")
            say(f"{wait()}: stopping")
            server.stop()
    finally:
        server.close()


def prepare(flags: ServeFlags, say: Callable[[str], None]) -> "ServedNetwork":
    """Load the network and its labelled pictures, and compile."""
    from metapl.evaluate import predictor as predictors
    from metapl.web.serve.network import ServedNetwork, facts

    run = predictors.choose(flags.run).run
    predictor = predictors.load(flags.run)
    if not predictor.takes_pictures:
        raise ConfigError(f"{flags.run} was trained on points, not on pictures: there is nothing to drop on a page")
    examples, why_none = find_examples(flags, predictor, run, say)
    served = ServedNetwork(predictor, facts(flags.run.resolve().name, run, predictor), examples, why_none)
    served.warm_up()
    return served


def find_examples(
    flags: ServeFlags, predictor: "Predictor", run: Path, say: Callable[[str], None]
) -> tuple["LabeledExamples | None", str]:
    """Return the run's labelled pictures, or why there are none; predictions do not need them.

    The page says it in general words: the sentence in the terminal names paths, which visitors should not see.
    """
    from metapl.web.serve.examples import collect

    places = folders(flags.data_dir)
    if not flags.examples:
        return None, NOT_WANTED
    try:
        examples = collect(predictor, run.absolute(), places, flags.examples)
    except DataError as error:
        say(f"No labelled examples will be shown: {error}")
        return None, NOT_THERE
    say(f"Loaded {len(examples):,} labelled pictures")
    return examples, ""
