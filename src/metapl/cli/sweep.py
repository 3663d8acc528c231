"""`metapl sweep`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from annotated_types import Ge

from metapl.cli.data_folders import folders
from metapl.cli.flags import parse, split_words
from metapl.schema import ConfigError, validate
from metapl.sweep.settings import Budget, read_settings, validation_size
from metapl.system.folders import claim, next_free
from metapl.system.terminal import Terminal, say

DATABASE = "sweep.db"


@dataclass(frozen=True)
class SweepFlags:
    """How much to try, where, and where the results go."""

    budget: Annotated[Budget, tyro.conf.arg(name="")] = Budget()
    workers: Annotated[int, Ge(1)] = 1
    """Processes on this machine that train at once; other machines join by the same command and a common --storage."""
    space: Path | None = None
    """TOML file with the ranges to search. Default: ours, which follow the paper's tables (docs/sweeps.md)."""
    storage: str = ""
    """Database of the trials: sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME. Default: a file in --out."""
    data_dir: Path | None = None
    """Where data files are, if the source has any. Default: the user's cache."""
    out: Path | None = None
    """Folder of the sweep: new or empty, or that of a sweep to continue. Default: runs/sweep."""


def sweep(args: Sequence[str]) -> None:
    """Tune methods fairly: equal trials, judged on validation data.

    The first words are presets or TOML files, one for each method. Every method gets the same number of trials, with
    the same limit of steps; test data are never used. The same command continues a sweep that was stopped. Several
    processes share the work (--workers, or several machines with a common --storage). Prints a table, and writes
    trials.csv, sweep.json, importance.svg and best-METHOD.toml, which metapl train takes. docs/sweeps.md explains more.

    Examples:
      metapl sweep digits_uda_small digits_mpl_small --trials 20 --max-steps 1000 --validate-on 40 --out sweeps/digits
      metapl sweep my_uda.toml my_mpl.toml --workers 2 --space my_ranges.toml --out sweeps/mine
      metapl sweep my_mpl.toml --storage postgresql://me@server/sweeps --out sweeps/mine
    """
    words, rest = split_words(args)
    flags = parse(SweepFlags, "metapl sweep PRESET_OR_TOML …", sweep, rest, SweepFlags())
    if not words:
        raise ConfigError("sweep needs presets or TOML files first; metapl train --help lists the presets")
    validate(flags)
    settings = read_settings(words, flags.budget, flags.space, folders(flags.data_dir))
    try:
        import optuna  # noqa: F401
    except ImportError:
        raise ConfigError("sweeps need optuna: pip install 'metapl[sweep]'") from None
    from metapl.sweep import coordinator, store

    validation = validation_size(settings)
    if flags.storage:
        store.connect(flags.storage)  # a wrong address must fail before a folder is made
    out = _folder(flags.out)
    url = flags.storage or f"sqlite:///{out / DATABASE}"
    terminal = Terminal()
    report = coordinator.sweep(settings, out.name, url, flags.workers, out, terminal, validation)
    say(terminal, f"wrote {report}")


def _folder(out: Path | None) -> Path:
    """Return a new folder, or that of a sweep to continue."""
    if out is None:
        return claim(next_free(Path("runs/sweep")))
    if (out / DATABASE).is_file() or (out / "workers").is_dir():
        return out
    return claim(out)
