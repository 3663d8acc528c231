"""`metapl predict`: its flags, and how much it has done."""

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NoReturn

import tyro
from annotated_types import Ge
from rich.console import Console

from metapl.cli.flags import parse
from metapl.data.reading.find_pictures import find
from metapl.evaluate import predictor
from metapl.predict import write
from metapl.predict.answers import Answer, answer
from metapl.predict.progress import counting
from metapl.schema import ConfigError, validate
from metapl.system import runtime
from metapl.system.disk import reason
from metapl.system.terminal import say


@dataclass(frozen=True)
class Flags:
    """What to ask, about what, and where the answers go."""

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of a finished run, or of metapl fit."""
    paths: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="PATHS…")]
    """Files, folders (with all pictures below them) and quoted patterns such as 'photos/**/*.jpg'."""
    csv: Path | None = None
    """Write a CSV file, which must be new; - writes it where the table would go."""
    json: bool = False
    """Print one line of JSON for each picture instead of the table."""
    top_k: Annotated[int, Ge(1)] = 5
    """How many classes are told for each picture."""
    seed: int | None = None
    """Which seed's weights, if the run has several. Default: the first."""

    def check(self) -> None:
        """Check fields against each other."""
        if not self.paths:
            raise ValueError("predict needs pictures: files, folders or patterns after the run")
        if self.csv and self.json:
            raise ValueError("--csv and --json are two ways to write the same: choose one")


def predict(args: Sequence[str], documented: Callable[..., None]) -> None:
    """Answer, and say how many pictures that were; exit code 1 if not one could be read."""
    flags = parse(Flags, "metapl predict", documented, args)
    validate(flags)
    runtime.start()
    loaded = predictor.load(flags.run, flags.seed)
    loaded.check_takes_pictures()
    console, begun = Console(stderr=True), time.monotonic()
    done = bad = 0
    try:
        to_file = flags.csv is not None and str(flags.csv) != "-"
        with _writer(flags, loaded.class_names) as put, counting(shown=to_file) as advance:
            for one in answer(loaded, find(flags.paths)):
                put(one)
                done, bad = done + 1, bad + (one.probabilities is None)
                advance(1)
        sys.stdout.flush()
    except OSError as error:
        _cannot_write(error)
    said = summary(done, bad, time.monotonic() - begun, flags.csv)
    say(console, said)
    if done == bad:
        sys.exit(1)


def _writer(flags: Flags, class_names: Sequence[str]) -> AbstractContextManager[Callable[[Answer], None]]:
    if flags.csv:
        return write.csv_file(flags.csv, class_names, flags.top_k)
    return (write.json_lines if flags.json else write.table)(class_names, flags.top_k)


def summary(done: int, bad: int, seconds: float, file: Path | None) -> str:
    """One sentence for the end."""
    good = done - bad
    pace = f" in {seconds:.1f} s ({60 * good / seconds:,.0f} a minute)" if good and seconds else ""
    failed = f"; {bad:,} could not be read, see the error beside each" if bad else ""
    wrote = f"; wrote {file}" if file and str(file) != "-" else ""
    return f"{good:,} {'picture' if good == 1 else 'pictures'} answered{pace}{failed}{wrote}"


def _cannot_write(error: OSError) -> NoReturn:
    """Say why, or end as the shell expects when `head` has seen enough; Python would complain once more at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        sys.exit(128 + signal.SIGPIPE)
    raise ConfigError(f"the answers could not be written: {reason(error)}") from None
