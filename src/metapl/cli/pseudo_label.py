"""`metapl pseudo-label`: its flags, and what it says at its end."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from metapl.cli.flags import parse
from metapl.evaluate import predictor
from metapl.predict.progress import counting
from metapl.predict.pseudo_labels import label_pictures
from metapl.schema import ConfigError, validate
from metapl.system import runtime
from metapl.system.disk import reason


@dataclass(frozen=True)
class Flags:
    """The run that predicts, the pictures, and the file to write."""

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of a finished run, or of metapl fit."""
    pictures: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
    """The folder of pictures. If it has subfolders labeled and unlabeled, the pictures in unlabeled are taken."""
    out: Path = Path("probabilities.npy")
    """The file to write; its name ends with .npy. The same command continues a file that is not complete."""
    seed: int | None = None
    """The seed whose weights predict, if the run has several. Default: the first."""

    def check(self) -> None:
        """Check fields against each other."""
        if self.out.suffix != ".npy":
            raise ValueError(f"out takes a name that ends with .npy, got {self.out}")


def pseudo_label(args: Sequence[str], documented: Callable[..., None]) -> None:
    """Predict every picture of the folder, and say what to do with the predictions."""
    flags = parse(Flags, "metapl pseudo-label", documented, args)
    validate(flags)
    console = Console()
    runtime.start()
    loaded = predictor.load(flags.run, flags.seed)

    def say(sentence: str) -> None:
        console.print(sentence, highlight=False, markup=False, soft_wrap=True)

    try:
        with counting() as advance:
            labeled = label_pictures(loaded, flags.pictures, flags.out, say, advance)
    except OSError as error:
        raise ConfigError(f"--out {flags.out} could not be written: {reason(error)}") from None
    failed = f"; {labeled.unreadable:,} could not be read ({labeled.errors})" if labeled.unreadable else ""
    say(f"{flags.out} has the probabilities of {labeled.pictures - labeled.unreadable:,} pictures{failed}")
    say(f"next: metapl data select {flags.out} --names {labeled.names}")
