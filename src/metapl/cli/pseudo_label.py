"""`metapl pseudo-label`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from metapl.cli.flags import parse
from metapl.evaluate import predictor
from metapl.predict.progress import counting
from metapl.predict.pseudo_labels import label_pictures
from metapl.schema import ConfigError, validate
from metapl.system import runtime
from metapl.system.disk import reason
from metapl.system.terminal import Terminal, sayer


@dataclass(frozen=True)
class PseudoLabelFlags:
    """Which run predicts, which pictures, and where the probabilities go."""

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of a finished run, or of metapl fit."""
    pictures: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
    """The folder of pictures; of a folder with labeled/ and unlabeled/ in it, unlabeled/ is read."""
    out: Path = Path("probabilities.npy")
    """The file to write, whose name ends with .npy; the same command continues an unfinished one."""
    seed: int | None = None
    """The seed whose weights predict, if the run has several. Default: the first."""

    def check(self) -> None:
        """Check the name of the file."""
        if self.out.suffix != ".npy":
            raise ValueError(f"out takes a name that ends with .npy, got {self.out}")


def pseudo_label(args: Sequence[str]) -> None:
    """Write a run's probabilities for a folder of pictures.

    RUN is the folder of a finished run, or of metapl fit; DIR holds pictures at any depth. Writes a .npy of float16
    [pictures, classes], a .txt with the path of each row, and, if pictures could not be read, a .errors.csv; their rows
    are zeros. The same command continues if it was stopped or killed. Other files are never overwritten. metapl data
    select reads the files.

    Examples:
      metapl pseudo-label runs/mine unlabeled --out probabilities.npy
      metapl data select probabilities.npy --names probabilities.txt --per-class 500 --threshold 0.3
    """
    flags = parse(PseudoLabelFlags, "metapl pseudo-label", pseudo_label, args)
    validate(flags)
    say = sayer(Terminal())
    runtime.start()
    loaded = predictor.load(flags.run, flags.seed)
    try:
        with counting() as advance:
            labeled = label_pictures(loaded, flags.pictures, flags.out, say, advance)
    except OSError as error:
        raise ConfigError(f"--out {flags.out} could not be written: {reason(error)}") from None
    failed = f"; {labeled.unreadable:,} could not be read ({labeled.errors})" if labeled.unreadable else ""
    say(f"{flags.out} has the probabilities of {labeled.pictures - labeled.unreadable:,} pictures{failed}")
    say(f"next: metapl data select {flags.out} --names {labeled.names}")
