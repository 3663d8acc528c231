"""`metapl predict`."""

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from annotated_types import Ge

from metapl.cli.flags import parse
from metapl.data.reading.find_pictures import find
from metapl.evaluate import predictor
from metapl.predict import write
from metapl.predict.predictions import Prediction
from metapl.predict.predictions import predict as predict_pictures
from metapl.predict.progress import counting
from metapl.schema import ConfigError, validate
from metapl.system import runtime
from metapl.system.disk import reason
from metapl.system.terminal import Terminal, discard_output, say


@dataclass(frozen=True)
class PredictFlags:
    """Which run predicts, which pictures, and where the predictions go."""

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of a finished run, or of metapl fit."""
    paths: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="PATHS…")]
    """Files, folders (with all pictures below them) and quoted patterns such as 'photos/**/*.jpg'."""
    csv: Path | None = None
    """Write a CSV file, which must be new; -: print the CSV instead of the table."""
    json: bool = False
    """Print one line of JSON for each picture instead of the table."""
    top_k: Annotated[int, Ge(1)] = 5
    """How many classes to list for each picture."""
    seed: int | None = None
    """The seed whose weights predict, if the run has several. Default: the first."""

    def check(self) -> None:
        """Check fields against each other."""
        if not self.paths:
            raise ValueError("predict needs pictures: files, folders or patterns after the run")
        if self.csv and self.json:
            raise ValueError("--csv and --json cannot be given together: choose one")


def predict(args: Sequence[str]) -> None:
    """Predict the classes of new pictures: a table, CSV or JSON.

    RUN is the folder of a finished run, or of metapl fit; its data are not needed. Pictures are read as in training, in
    parallel, and listed in their order. If a picture cannot be read, its row says why, and the rest are predicted.
    docs/own_pictures.md explains the columns.

    Exit code 0: at least one picture was read; 1: none could be read; 2: RUN cannot be used.

    Examples:
      metapl predict runs/mine photo.jpg
      metapl predict runs/mine photos 'more/**/*.jpg' --csv predictions.csv
      metapl predict runs/mine photos --top-k 1 --json
    """
    flags = parse(PredictFlags, "metapl predict", predict, args)
    validate(flags)
    runtime.start()
    loaded = predictor.load(flags.run, flags.seed)
    loaded.check_takes_pictures()
    begun = time.monotonic()
    done = bad = 0
    try:
        to_file = flags.csv is not None and str(flags.csv) != "-"
        with _writer(flags, loaded.class_names) as put, counting(shown=to_file) as advance:
            for prediction in predict_pictures(loaded, find(flags.paths)):
                put(prediction)
                done, bad = done + 1, bad + (prediction.probabilities is None)
                advance(1)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        discard_output()
        raise ConfigError(f"the predictions could not be written: {reason(error)}") from None
    say(Terminal(stderr=True), summary(done, bad, time.monotonic() - begun, flags.csv))
    if done == bad:
        sys.exit(1)


def _writer(flags: PredictFlags, class_names: Sequence[str]) -> AbstractContextManager[Callable[[Prediction], None]]:
    if flags.csv:
        return write.csv_file(flags.csv, class_names, flags.top_k)
    return (write.json_lines if flags.json else write.table)(class_names, flags.top_k)


def summary(done: int, bad: int, seconds: float, file: Path | None) -> str:
    """Return the last sentence: how many pictures, how fast, how many failed."""
    good = done - bad
    pace = f" in {seconds:.1f} s ({60 * good / seconds:,.0f} a minute)" if good and seconds else ""
    failed = f"; {bad:,} could not be read, see the error of each" if bad else ""
    wrote = f"; wrote {file}" if file and str(file) != "-" else ""
    return f"{good:,} {'picture' if good == 1 else 'pictures'} predicted{pace}{failed}{wrote}"
